/* A master deals out work of 10 to 16 KiB to free workers, and takes the results: the pattern of a parallel simplification
 * of meshes. A unit is a cluster of a mesh's vertices, each with its normal. It is split into eight along its principal axes,
 * each of which is represented by a vertex with the mean position and normal; the vertices come back in the order of their
 * parts. */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 96, FEWEST = 427, MOST = 682, LEAVES = 8, STOP = 1, UNIT = 2, RESULT = 3 };

struct vertex {
    float position[3], normal[3];
};

/* What a worker returns: with `FEWEST` to `MOST` vertices, 10 to 16 KiB. */
struct result {
    int unit, counts[LEAVES];
    float error;
    struct vertex leaves[LEAVES];
    struct vertex vertices[MOST];
};

static struct vertex *mesh;
static int begins[UNITS + 1];

/* The vertices of a closed tube around a knot, in clusters of different sizes. */
static void make_mesh(void)
{
    int many = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        begins[unit] = many;
        many += FEWEST + unit * 97 % (MOST - FEWEST + 1);
    }
    begins[UNITS] = many;
    mesh = (struct vertex *)room((size_t)many * sizeof *mesh);
    for (int i = 0; i < many; i++) {
        double along = 4 * acos(0) * i / many, around = 4 * acos(0) * (i * 0.6180339887 - floor(i * 0.6180339887));
        double radius = 2 + cos(3 * along), bulge = 0.4 + 0.05 * sin(17 * along + 5 * around);
        double center[3] = {radius * cos(2 * along), radius * sin(2 * along), sin(3 * along)};
        double normal[3] = {cos(around) * cos(2 * along), cos(around) * sin(2 * along), sin(around)};
        for (int d = 0; d < 3; d++) {
            mesh[i].normal[d] = (float)normal[d];
            mesh[i].position[d] = (float)(center[d] + bulge * normal[d]);
        }
    }
}

/* Eigenvectors of a symmetric matrix, by Jacobi's rotations. */
static void axes_of(double a[3][3], double axes[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            axes[i][j] = i == j;
    for (int sweep = 0; sweep < 12; sweep++)
        for (int p = 0; p < 2; p++)
            for (int q = p + 1; q < 3; q++) {
                if (fabs(a[p][q]) < 1e-12)
                    continue;
                double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 3; k++) {
                    double kp = a[k][p], kq = a[k][q];
                    a[k][p] = c * kp - s * kq;
                    a[k][q] = s * kp + c * kq;
                }
                for (int k = 0; k < 3; k++) {
                    double pk = a[p][k], qk = a[q][k];
                    a[p][k] = c * pk - s * qk;
                    a[q][k] = s * pk + c * qk;
                    double vp = axes[k][p], vq = axes[k][q];
                    axes[k][p] = c * vp - s * vq;
                    axes[k][q] = s * vp + c * vq;
                }
            }
}

/* What a worker does with a unit. */
static void split(const struct vertex *vertices, int many, struct result *result)
{
    double mean[3] = {0}, spread[3][3] = {{0}}, axes[3][3], sums[LEAVES][6] = {{0}};
    int leaf_of[MOST], next[LEAVES];
    for (int i = 0; i < many; i++)
        for (int d = 0; d < 3; d++)
            mean[d] += vertices[i].position[d] / many;
    for (int i = 0; i < many; i++)
        for (int d = 0; d < 3; d++)
            for (int e = 0; e < 3; e++)
                spread[d][e] += (vertices[i].position[d] - mean[d]) * (vertices[i].position[e] - mean[e]);
    axes_of(spread, axes);
    memset(result->counts, 0, sizeof result->counts);
    for (int i = 0; i < many; i++) {
        int leaf = 0;
        for (int axis = 0; axis < 3; axis++) {
            double side = 0;
            for (int d = 0; d < 3; d++)
                side += axes[d][axis] * (vertices[i].position[d] - mean[d]);
            leaf |= (side > 0) << axis;
        }
        leaf_of[i] = leaf;
        result->counts[leaf]++;
        for (int d = 0; d < 3; d++) {
            sums[leaf][d] += vertices[i].position[d];
            sums[leaf][3 + d] += vertices[i].normal[d];
        }
    }
    for (int leaf = 0, at = 0; leaf < LEAVES; at += result->counts[leaf++]) {
        int count = result->counts[leaf] ? result->counts[leaf] : 1;
        next[leaf] = at;
        for (int d = 0; d < 3; d++) {
            result->leaves[leaf].position[d] = (float)(sums[leaf][d] / count);
            result->leaves[leaf].normal[d] = (float)(sums[leaf][3 + d] / count);
        }
    }
    double error = 0;
    for (int i = 0; i < many; i++) {
        for (int d = 0; d < 3; d++)
            error += fabs(vertices[i].position[d] - result->leaves[leaf_of[i]].position[d]);
        result->vertices[next[leaf_of[i]]++] = vertices[i];
    }
    result->error = (float)error;
}

static int bytes_of(int unit)
{
    return (int)((size_t)(begins[unit + 1] - begins[unit]) * sizeof *mesh);
}

static void deal(int unit, int worker)
{
    MPI_Send(mesh + begins[unit], bytes_of(unit), MPI_BYTE, worker, UNIT + 10 + unit, MPI_COMM_WORLD);
}

static struct result *results;

static void master(void)
{
    static struct result result;
    int next = 0;
    for (int worker = 1; worker < ranks && next < UNITS; worker++)
        deal(next++, worker);
    for (int done = 0; done < UNITS; done++) {
        MPI_Status status;
        MPI_Recv(&result, sizeof result, MPI_BYTE, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &status);
        if (next < UNITS)
            deal(next++, status.MPI_SOURCE);
        memcpy(&results[result.unit], &result, sizeof result);
    }
    for (int worker = 1; worker < ranks; worker++)
        MPI_Send(NULL, 0, MPI_BYTE, worker, STOP, MPI_COMM_WORLD);
}

static void worker(void)
{
    static struct vertex vertices[MOST];
    static struct result result;
    for (;;) {
        MPI_Status status;
        int bytes;
        MPI_Recv(vertices, sizeof vertices, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == STOP)
            return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        int many = bytes / (int)sizeof *vertices;
        result.unit = status.MPI_TAG - UNIT - 10;
        split(vertices, many, &result);
        size_t length = offsetof(struct result, vertices) + (size_t)bytes;
        MPI_Send(&result, (int)length, MPI_BYTE, 0, RESULT, MPI_COMM_WORLD);
    }
}

static void all_units(struct work *work, long rounds)
{
    (void)work;
    for (long i = 0; i < rounds; i++)
        if (rank == 0)
            master();
        else
            worker();
}

void run_master_worker(struct work *work)
{
    static struct result alone;
    make_mesh();
    results = (struct result *)room(UNITS * sizeof *results);
    double seconds = measure(all_units, work);
    for (int unit = 0; unit < UNITS && rank == 0; unit++) {
        int many = begins[unit + 1] - begins[unit];
        const struct result *theirs = &results[unit];
        split(mesh + begins[unit], many, &alone);
        if (alone.error != theirs->error || memcmp(alone.counts, theirs->counts, sizeof alone.counts) != 0 ||
            memcmp(alone.leaves, theirs->leaves, sizeof alone.leaves) != 0 ||
            memcmp(alone.vertices, theirs->vertices, (size_t)bytes_of(unit)) != 0)
            fail("a worker's result is not what the master computes itself");
    }
    print_of_ranks("master-worker", 0, "latency_us", seconds * 1e6);
    free(mesh);
    free(results);
}
