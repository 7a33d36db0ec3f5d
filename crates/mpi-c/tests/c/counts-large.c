/* Operations whose counts are of type MPI_Count. */
#define COUNT MPI_Count
#define DISP MPI_Aint
#define EXTENT MPI_Count
#define F(name) MPI_##name##_c
#include "counts.h"
