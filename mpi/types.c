/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes: their bytes, whether they have gaps, and what reduces them. */
#include "front.h"

enum kind { INTEGER, UNSIGNED, REAL, COMPLEX, BYTES }; /* BYTES: only moved */

static const struct {
    MPI_Datatype handle;
    enum kind kind;
} named[] = {
    { MPI_FLOAT, REAL },
    { MPI_DOUBLE, REAL },
    { MPI_INT, INTEGER },
    { MPI_BYTE, BYTES },
    { MPI_CHAR, BYTES }, /* MPI reduces no characters */
    { MPI_LONG, INTEGER },
    { MPI_UNSIGNED, UNSIGNED },
    { MPI_UNSIGNED_LONG, UNSIGNED },
    { MPI_LONG_LONG, INTEGER },
    { MPI_UNSIGNED_LONG_LONG, UNSIGNED },
    { MPI_SIGNED_CHAR, INTEGER },
    { MPI_UNSIGNED_CHAR, UNSIGNED },
    { MPI_SHORT, INTEGER },
    { MPI_UNSIGNED_SHORT, UNSIGNED },
    { MPI_INT8_T, INTEGER },
    { MPI_INT16_T, INTEGER },
    { MPI_INT32_T, INTEGER },
    { MPI_INT64_T, INTEGER },
    { MPI_UINT8_T, UNSIGNED },
    { MPI_UINT16_T, UNSIGNED },
    { MPI_UINT32_T, UNSIGNED },
    { MPI_UINT64_T, UNSIGNED },
    { MPI_AINT, INTEGER },
    { MPI_OFFSET, INTEGER },
    { MPI_COUNT, INTEGER },
    { MPI_C_FLOAT_COMPLEX, COMPLEX },
    { MPI_C_DOUBLE_COMPLEX, COMPLEX },
    { MPI_C_LONG_DOUBLE_COMPLEX, BYTES },
    { MPI_LONG_DOUBLE, BYTES },
    { MPI_C_BOOL, BYTES },
    { MPI_WCHAR, BYTES },
    { MPI_PACKED, BYTES },
    { MPI_2INT, BYTES },
    { MPI_INTEGER, INTEGER },
    { MPI_REAL, REAL },
    { MPI_DOUBLE_PRECISION, REAL },
    { MPI_COMPLEX, COMPLEX },
    { MPI_DOUBLE_COMPLEX, COMPLEX },
    { MPI_LOGICAL, BYTES },
    { MPI_CHARACTER, BYTES },
};
#define NNAMED (sizeof named / sizeof *named)

static struct plait_mpi_type types[NNAMED];

static int dtype(enum kind kind, size_t size)
{
    switch (kind) {
    case INTEGER:
        return size == 1 ? PLAIT_INT8 : size == 4 ? PLAIT_INT32 : size == 8 ? PLAIT_INT64 : -1;
    case UNSIGNED:
        return size == 1 ? PLAIT_UINT8 : size == 4 ? PLAIT_UINT32 : size == 8 ? PLAIT_UINT64 : -1;
    case REAL:
        return size == 4 ? PLAIT_FLOAT32 : size == 8 ? PLAIT_FLOAT64 : -1;
    case COMPLEX:
        return size == 8 ? PLAIT_FLOAT32 : size == 16 ? PLAIT_FLOAT64 : -1;
    default:
        return -1;
    }
}

void plait_mpi_types_init(void)
{
    for (size_t i = 0; i < NNAMED; i++) {
        int size = 0;
        if (named[i].handle != MPI_DATATYPE_NULL) /* an MPI without Fortran */
            PMPI_Type_size(named[i].handle, &size);
        types[i] = (struct plait_mpi_type){ named[i].handle,
                                            (size_t)size,
                                            size,
                                            true,
                                            dtype(named[i].kind, (size_t)size),
                                            named[i].kind == COMPLEX ? 2 : 1,
                                            named[i].kind == COMPLEX };
    }
}

static bool find_named(MPI_Datatype handle, struct plait_mpi_type *out)
{
    for (size_t i = 0; i < NNAMED; i++)
        if (types[i].handle == handle && types[i].size > 0) {
            *out = types[i];
            return true;
        }
    return false;
}

/* Of a duplicate, or of elements in a row: what they are made of. */
static bool unroll(MPI_Datatype handle, struct plait_mpi_type *out)
{
    int nint, naddress, ntype, combiner, child_combiner, count = 1;
    MPI_Aint none;
    MPI_Datatype child;

    if (PMPI_Type_get_envelope(handle, &nint, &naddress, &ntype, &combiner) != MPI_SUCCESS ||
        (combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) || nint > 1 || naddress > 0 ||
        ntype != 1 || PMPI_Type_get_contents(handle, nint, 0, 1, &count, &none, &child) != MPI_SUCCESS)
        return false;
    const bool known = find_named(child, out) || unroll(child, out);
    if (PMPI_Type_get_envelope(child, &nint, &naddress, &ntype, &child_combiner) == MPI_SUCCESS &&
        child_combiner != MPI_COMBINER_NAMED)
        PMPI_Type_free(&child); /* MPI_Type_get_contents() has made it */
    if (known && combiner == MPI_COMBINER_CONTIGUOUS) {
        out->size *= (size_t)count;
        out->extent *= count;
        out->type = -1; /* MPI's operators do not take it */
    }
    return known;
}

bool plait_mpi_type_of(MPI_Datatype handle, struct plait_mpi_type *out)
{
    MPI_Aint lower, extent;
    MPI_Count size;

    if (find_named(handle, out))
        return true;
    if (handle == MPI_DATATYPE_NULL)
        return false;
    if (unroll(handle, out)) {
        out->handle = handle;
        return true;
    }
    if (PMPI_Type_size_x(handle, &size) != MPI_SUCCESS || size == MPI_UNDEFINED ||
        PMPI_Type_get_extent(handle, &lower, &extent) != MPI_SUCCESS)
        return false;
    *out = (struct plait_mpi_type){ handle, (size_t)size, extent, false, -1, 1, false };
    return true;
}

int plait_mpi_op_of(MPI_Op op, const struct plait_mpi_type *type)
{
    if (type->type < 0)
        return -1;
    if (op == MPI_SUM)
        return PLAIT_SUM;
    if (type->sums)
        return -1;
    return op == MPI_PROD ? PLAIT_PROD : op == MPI_MAX ? PLAIT_MAX : op == MPI_MIN ? PLAIT_MIN : -1;
}
