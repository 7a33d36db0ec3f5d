/* Grids and graphs: made, queried, cut into parts. */
#include "check.h"

static void dimensions(void) {
    int dims[2] = {0, 0}, bad[1] = {-1};
    OK(MPI_Dims_create(6, 2, dims));
    CHECK(dims[0] == 3 && dims[1] == 2);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Dims_create(6, 1, bad), class;
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_DIMS);
}

static void ring(void) {
    MPI_Comm grid, twin, alone;
    int dims[1] = {size}, periods[1] = {1}, coords[1], kind, many, from, to, outside[1] = {-1}, there, remain[1] = {0};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
    OK(MPI_Topo_test(grid, &kind));
    CHECK(kind == MPI_CART);
    OK(MPI_Comm_dup(grid, &twin));
    OK(MPI_Cartdim_get(twin, &many));
    CHECK(many == 1);
    OK(MPI_Cart_get(twin, 1, dims, periods, coords));
    CHECK(dims[0] == size && periods[0] == 1 && coords[0] == rank);
    OK(MPI_Cart_shift(grid, 0, 1, &from, &to));
    CHECK(from == (rank + size - 1) % size && to == (rank + 1) % size);
    OK(MPI_Cart_rank(grid, outside, &there));
    CHECK(there == size - 1);
    OK(MPI_Cart_coords(grid, there, 1, coords));
    CHECK(coords[0] == size - 1);
    OK(MPI_Cart_sub(grid, remain, &alone));
    OK(MPI_Comm_size(alone, &many));
    CHECK(many == 1);
    OK(MPI_Cartdim_get(alone, &many));
    CHECK(many == 0);
    OK(MPI_Comm_free(&alone));
    OK(MPI_Comm_free(&twin));
    OK(MPI_Comm_free(&grid));
}

/* Not a ring: shifts end at the edges. */
static void line(void) {
    MPI_Comm grid;
    int dims[1] = {size}, periods[1] = {0}, from, to;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
    OK(MPI_Cart_shift(grid, 0, 1, &from, &to));
    CHECK(from == (rank ? rank - 1 : MPI_PROC_NULL));
    CHECK(to == (rank + 1 < size ? rank + 1 : MPI_PROC_NULL));
    OK(MPI_Comm_free(&grid));
}

/* A star: everyone is the neighbour of rank 0. */
static void star(void) {
    MPI_Comm graph;
    int *index = malloc(size * sizeof *index), *edges = malloc(2 * size * sizeof *edges);
    int *got = malloc(3 * size * sizeof *got), kind, nodes, many;
    for (int r = 0; r < size; r++) index[r] = size - 1 + r;
    for (int r = 1; r < size; r++) edges[r - 1] = r, edges[size - 2 + r] = 0;
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph));
    OK(MPI_Topo_test(graph, &kind));
    CHECK(kind == MPI_GRAPH);
    OK(MPI_Graphdims_get(graph, &nodes, &many));
    CHECK(nodes == size && many == 2 * (size - 1));
    OK(MPI_Graph_get(graph, nodes, many, got, got + size));
    CHECK(memcmp(got, index, size * sizeof *got) == 0);
    OK(MPI_Graph_neighbors_count(graph, rank, &many));
    CHECK(many == (rank ? 1 : size - 1));
    OK(MPI_Graph_neighbors(graph, rank, many, got));
    for (int n = 0; n < many; n++) CHECK(got[n] == (rank ? 0 : n + 1));
    OK(MPI_Comm_free(&graph));
    OK(MPI_Graph_create(MPI_COMM_WORLD, 0, index, edges, 0, &graph));
    CHECK(graph == MPI_COMM_NULL);
    free(index), free(edges), free(got);
}

/* Each process receives from the one before, and sends to the one behind and to itself. */
static void adjacent(void) {
    MPI_Comm graph;
    int before = (rank + size - 1) % size, behind = (rank + 1) % size;
    int sources[2] = {before, rank}, destinations[2] = {behind, rank}, weights[2] = {rank, 7};
    int in[2], out[2], in_weights[2], out_weights[2], many_in, many_out, weighted, kind;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, weights, 2, destinations, weights, MPI_INFO_NULL, 0,
                                      &graph));
    OK(MPI_Topo_test(graph, &kind));
    CHECK(kind == MPI_DIST_GRAPH);
    OK(MPI_Dist_graph_neighbors_count(graph, &many_in, &many_out, &weighted));
    CHECK(many_in == 2 && many_out == 2 && weighted);
    OK(MPI_Dist_graph_neighbors(graph, 2, in, in_weights, 2, out, out_weights));
    CHECK(in[0] == before && in[1] == rank && out[0] == behind && out[1] == rank);
    CHECK(in_weights[0] == rank && out_weights[1] == 7);
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_UNWEIGHTED, 2, destinations, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &many_in, &many_out, &weighted));
    CHECK(many_in == 0 && many_out == 2 && !weighted);
    /* Only the first one. */
    out[1] = -5;
    OK(MPI_Dist_graph_neighbors(graph, 0, NULL, MPI_UNWEIGHTED, 1, out, MPI_UNWEIGHTED));
    CHECK(out[0] == behind && out[1] == -5);
    OK(MPI_Comm_free(&graph));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    dimensions();
    ring();
    line();
    star();
    adjacent();
    OK(MPI_Finalize());
    return 0;
}
