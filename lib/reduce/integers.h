/* SPDX-License-Identifier: BSD-3-Clause */
/* Includes the header EACH for every integer type, with T, the type, and FN(x), the names of its functions. */

#define T        int8_t
#define FN(name) name##_i8
#include EACH

#define T        uint8_t
#define FN(name) name##_u8
#include EACH

#define T        int32_t
#define FN(name) name##_i32
#include EACH

#define T        uint32_t
#define FN(name) name##_u32
#include EACH

#define T        int64_t
#define FN(name) name##_i64
#include EACH

#define T        uint64_t
#define FN(name) name##_u64
#include EACH

#undef EACH
