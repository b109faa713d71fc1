/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes: their bytes, whether they have gaps, and what reduces them. */
#include "front.h"

enum kind { INTEGER, UNSIGNED, REAL, COMPLEX };

/* The types that Plait reduces, if they have its sizes. */
static const struct {
    MPI_Datatype handle;
    enum kind kind;
} reduced[] = {
    { MPI_FLOAT, REAL },
    { MPI_DOUBLE, REAL },
    { MPI_INT, INTEGER },
    { MPI_LONG, INTEGER },
    { MPI_LONG_LONG, INTEGER },
    { MPI_UNSIGNED, UNSIGNED },
    { MPI_UNSIGNED_LONG, UNSIGNED },
    { MPI_UNSIGNED_LONG_LONG, UNSIGNED },
    { MPI_SIGNED_CHAR, INTEGER },
    { MPI_UNSIGNED_CHAR, UNSIGNED },
    { MPI_INT8_T, INTEGER },
    { MPI_INT32_T, INTEGER },
    { MPI_INT64_T, INTEGER },
    { MPI_UINT8_T, UNSIGNED },
    { MPI_UINT32_T, UNSIGNED },
    { MPI_UINT64_T, UNSIGNED },
    { MPI_AINT, INTEGER },
    { MPI_OFFSET, INTEGER },
    { MPI_COUNT, INTEGER },
    { MPI_C_FLOAT_COMPLEX, COMPLEX },
    { MPI_C_DOUBLE_COMPLEX, COMPLEX },
    { MPI_INTEGER, INTEGER },
    { MPI_REAL, REAL },
    { MPI_DOUBLE_PRECISION, REAL },
    { MPI_COMPLEX, COMPLEX },
    { MPI_DOUBLE_COMPLEX, COMPLEX },
};

static int dtype(enum kind kind, int size)
{
    switch (kind) {
    case INTEGER:
        return size == 1 ? PLAIT_INT8 : size == 4 ? PLAIT_INT32 : size == 8 ? PLAIT_INT64 : -1;
    case UNSIGNED:
        return size == 1 ? PLAIT_UINT8 : size == 4 ? PLAIT_UINT32 : size == 8 ? PLAIT_UINT64 : -1;
    default:
        return size == 4 ? PLAIT_FLOAT32 : size == 8 ? PLAIT_FLOAT64 : -1;
    }
}

bool plait_mpi_reduction_of(MPI_Datatype handle, MPI_Op op, struct plait_mpi_reduction *out)
{
    size_t i = 0;
    int size;

    while (i < sizeof reduced / sizeof *reduced && reduced[i].handle != handle)
        i++;
    if (i == sizeof reduced / sizeof *reduced || handle == MPI_DATATYPE_NULL) /* that of an MPI without Fortran */
        return false;
    const bool is_complex = reduced[i].kind == COMPLEX;
    const int found = op == MPI_SUM    ? PLAIT_SUM
                      : is_complex     ? -1
                      : op == MPI_PROD ? PLAIT_PROD
                      : op == MPI_MAX  ? PLAIT_MAX
                      : op == MPI_MIN  ? PLAIT_MIN
                                       : -1;
    PMPI_Type_size(handle, &size);
    const int type = dtype(reduced[i].kind, is_complex ? size / 2 : size);
    *out = (struct plait_mpi_reduction){ (enum plait_dtype)type, (enum plait_op)found, is_complex ? 2 : 1 };
    return type >= 0 && found >= 0;
}

/* Are its elements in order? It has as many bytes as its extent. */
static bool is_in_order(MPI_Datatype handle)
{
    int nint, naddress, ntype, combiner, count;
    MPI_Aint none;
    MPI_Datatype child;

    if (PMPI_Type_get_envelope(handle, &nint, &naddress, &ntype, &combiner) != MPI_SUCCESS)
        return false;
    if (combiner == MPI_COMBINER_NAMED)
        return true;
    if ((combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) || nint > 1 || naddress > 0 ||
        ntype != 1 || PMPI_Type_get_contents(handle, nint, 0, 1, &count, &none, &child) != MPI_SUCCESS)
        return false;
    const bool in_order = is_in_order(child);
    if (PMPI_Type_get_envelope(child, &nint, &naddress, &ntype, &combiner) == MPI_SUCCESS &&
        combiner != MPI_COMBINER_NAMED)
        PMPI_Type_free(&child); /* MPI_Type_get_contents() has made it */
    return in_order;
}

bool plait_mpi_type_of(MPI_Datatype handle, struct plait_mpi_type *out)
{
    MPI_Aint lower, extent;
    MPI_Count size;

    if (handle == MPI_DATATYPE_NULL || PMPI_Type_size_x(handle, &size) != MPI_SUCCESS || size == MPI_UNDEFINED ||
        PMPI_Type_get_extent(handle, &lower, &extent) != MPI_SUCCESS)
        return false;
    *out = (struct plait_mpi_type){ handle, (size_t)size, extent, size == extent && is_in_order(handle) };
    return true;
}
