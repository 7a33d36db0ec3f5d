! Rows of matrices go round a ring of processes, of which halves then add up what they have: all kinds of handles, as integers.
! Handles of predefined objects are the numbers of the ABI.
program rows
    implicit none
    integer, parameter :: MPI_COMM_WORLD = int(z'101'), MPI_SUM = int(z'21')
    integer, parameter :: MPI_DOUBLE_PRECISION = int(z'21c'), MPI_INTEGER = int(z'219')
    integer, parameter :: N = 50
    double precision :: matrix(N, N), row(N)
    integer :: rank, size, half, row_type, request, status(8), ierror, i, total, before, mine

    call mpi_init(ierror)
    call check(ierror == 0)
    call mpi_comm_rank(MPI_COMM_WORLD, rank, ierror)
    call mpi_comm_size(MPI_COMM_WORLD, size, ierror)
    matrix = rank
    do i = 1, N
        matrix(3, i) = 1000 * rank + i
    end do
    call mpi_type_vector(N, 1, N, MPI_DOUBLE_PRECISION, row_type, ierror)
    call mpi_type_commit(row_type, ierror)
    call check(ierror == 0)
    call mpi_isend(matrix(3, 1), 1, row_type, mod(rank + 1, size), 7, MPI_COMM_WORLD, request, ierror)
    call check(ierror == 0)
    before = mod(rank + size - 1, size)
    call mpi_recv(row, N, MPI_DOUBLE_PRECISION, before, 7, MPI_COMM_WORLD, status, ierror)
    call check(ierror == 0 .and. status(1) == before .and. status(2) == 7)
    do i = 1, N
        call check(row(i) == 1000 * before + i)
    end do
    call mpi_wait(request, status, ierror)
    call check(ierror == 0)
    call mpi_type_free(row_type, ierror)
    call mpi_comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, ierror)
    call check(ierror == 0)
    mine = 1
    call mpi_allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, half, ierror)
    call check(ierror == 0 .and. total == (size + 1 - mod(rank, 2)) / 2)
    call mpi_comm_free(half, ierror)
    call mpi_finalize(ierror)
    call check(ierror == 0)
contains
    subroutine check(holds)
        logical, intent(in) :: holds
        if (.not. holds) then
            print *, 'rank ', rank, ': a check has failed'
            call mpi_abort(MPI_COMM_WORLD, 99, ierror)
        end if
    end subroutine
end program
