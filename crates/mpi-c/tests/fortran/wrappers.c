/* What a Fortran program calls, as compilers such as gfortran name it: handles are integers there, and arguments have addresses.
 * Compiled for the standard ABI; a library with such wrappers for all functions serves Fortran programs with any MPI of the ABI. */
#include <mpi.h>

void mpi_init_(int *ierror) { *ierror = MPI_Init(0, 0); }

void mpi_finalize_(int *ierror) { *ierror = MPI_Finalize(); }

void mpi_abort_(const int *comm, const int *code, int *ierror) {
    *ierror = MPI_Abort(MPI_Comm_fromint(*comm), *code);
}

void mpi_comm_rank_(const int *comm, int *rank, int *ierror) {
    *ierror = MPI_Comm_rank(MPI_Comm_fromint(*comm), rank);
}

void mpi_comm_size_(const int *comm, int *size, int *ierror) {
    *ierror = MPI_Comm_size(MPI_Comm_fromint(*comm), size);
}

void mpi_comm_split_(const int *comm, const int *color, const int *key, int *made, int *ierror) {
    MPI_Comm new;
    *ierror = MPI_Comm_split(MPI_Comm_fromint(*comm), *color, *key, &new);
    *made = MPI_Comm_toint(new);
}

void mpi_comm_free_(int *comm, int *ierror) {
    MPI_Comm freed = MPI_Comm_fromint(*comm);
    *ierror = MPI_Comm_free(&freed);
    *comm = MPI_Comm_toint(freed);
}

void mpi_type_vector_(const int *count, const int *length, const int *stride, const int *type, int *made, int *ierror) {
    MPI_Datatype new;
    *ierror = MPI_Type_vector(*count, *length, *stride, MPI_Type_fromint(*type), &new);
    *made = MPI_Type_toint(new);
}

void mpi_type_commit_(const int *type, int *ierror) {
    MPI_Datatype committed = MPI_Type_fromint(*type);
    *ierror = MPI_Type_commit(&committed);
}

void mpi_type_free_(int *type, int *ierror) {
    MPI_Datatype freed = MPI_Type_fromint(*type);
    *ierror = MPI_Type_free(&freed);
    *type = MPI_Type_toint(freed);
}

void mpi_isend_(const void *data, const int *count, const int *type, const int *to, const int *tag, const int *comm,
                int *request, int *ierror) {
    MPI_Request made;
    *ierror = MPI_Isend(data, *count, MPI_Type_fromint(*type), *to, *tag, MPI_Comm_fromint(*comm), &made);
    *request = MPI_Request_toint(made);
}

void mpi_recv_(void *data, const int *count, const int *type, const int *from, const int *tag, const int *comm,
               int *status, int *ierror) {
    *ierror = MPI_Recv(data, *count, MPI_Type_fromint(*type), *from, *tag, MPI_Comm_fromint(*comm),
                       (MPI_Status *)status);
}

void mpi_wait_(int *request, int *status, int *ierror) {
    MPI_Request waited = MPI_Request_fromint(*request);
    *ierror = MPI_Wait(&waited, (MPI_Status *)status);
    *request = MPI_Request_toint(waited);
}

void mpi_allreduce_(const void *from, void *into, const int *count, const int *type, const int *op, const int *comm,
                    int *ierror) {
    *ierror = MPI_Allreduce(from, into, *count, MPI_Type_fromint(*type), MPI_Op_fromint(*op), MPI_Comm_fromint(*comm));
}
