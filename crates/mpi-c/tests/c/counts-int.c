/* Operations whose counts are of type int. */
#define COUNT int
#define DISP int
#define EXTENT MPI_Aint
#define F(name) MPI_##name
#include "counts.h"
