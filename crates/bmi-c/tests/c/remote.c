/* memalloc, remote memory, mapping, options and load. */
#include "common.h"

enum { SIZE = 1 << 20, PART = 4096, GO = 1, REGIONS = 2, MAPPED = 3 };

/* Whether the program runs over shared memory; memory can be mapped only there. */
static int is_shm;

/* Messages that the client sends out of its mappings. */
static void take_mapped(struct layer *layer, bmi_addr_t client) {
    char *taken = malloc(SIZE);
    CHECK_IS(recv_from(layer, client, taken, SIZE, MAPPED), SIZE);
    CHECK(is_filled(taken, SIZE, 2));
    CHECK_IS(recv_from(layer, client, taken, SIZE, MAPPED), SIZE - PART - 1);
    CHECK_IS(recv_from(layer, client, taken, SIZE, MAPPED), SIZE);
    CHECK(is_filled(taken, SIZE, 2));
    free(taken);
}

/* Exports a plain and an allocated buffer, and checks them when the client says so. */
static void serve(struct layer *layer) {
    struct bmi_unexpected hello = next_unexpected(layer);
    bmi_addr_t client = hello.from;
    BMI_unexpected_free(&hello);
    void *plain = malloc(SIZE), *allocated = NULL;
    CHECK_IS(BMI_memalloc(layer->bmi, client, SIZE, &allocated), 0);
    CHECK((uintptr_t)allocated % 16 == 0);
    /* Its front alone is registered: exports begin in it and go on behind it. */
    CHECK_IS(BMI_register(layer->bmi, plain, PART + 100), 0);
    fill(plain, SIZE, 1);
    fill(allocated, SIZE, 2);
    struct bmi_region regions[3];
    CHECK_IS(BMI_export(layer->bmi, client, plain, SIZE, BMI_READ | BMI_WRITE, &regions[0]), 0);
    CHECK_IS(BMI_export(layer->bmi, client, allocated, SIZE, BMI_READ, &regions[1]), 0);
    CHECK_IS(BMI_export(layer->bmi, client, (char *)plain + PART, PART, BMI_WRITE, &regions[2]), 0);
    CHECK_IS(BMI_export(layer->bmi, client, plain, SIZE, 0, &regions[2]), BMI_EINVAL);
    CHECK_IS(regions[1].size, SIZE);
    CHECK_IS(send_to(layer, client, regions, sizeof regions, REGIONS), sizeof regions);
    char byte;
    if (is_shm) take_mapped(layer, client);
    CHECK_IS(recv_from(layer, client, &byte, 1, GO), 1);
    CHECK(is_filled(plain, PART, 9));
    CHECK(is_filled((char *)plain + PART, PART, 10));
    for (int i = 0; i < 3; i++) CHECK_IS(BMI_unexport(layer->bmi, client, &regions[i]), 0);
    CHECK_IS(BMI_unexport(layer->bmi, client, &regions[0]), 0);
    CHECK_IS(BMI_deregister(layer->bmi, plain), 0);
    CHECK_IS(send_to(layer, client, &byte, 1, GO), 1);
    /* A large message into the allocated buffer, part by part. */
    CHECK_IS(recv_from(layer, client, (char *)allocated + 100, SIZE, GO), BMI_EINVAL);
    CHECK_IS(recv_from(layer, client, (char *)allocated + 100, SIZE - 100, GO), SIZE - 100);
    CHECK(is_filled((char *)allocated + 100, SIZE - 100, 3));
    CHECK_IS(BMI_memfree(layer->bmi, allocated), 0);
    CHECK_IS(BMI_memfree(layer->bmi, allocated), BMI_EINVAL);
    free(plain);
    CHECK_IS(recv_from(layer, client, &byte, 1, GO), 1);
    CHECK_IS(BMI_addr_release(layer->bmi, client), 0);
}

static int64_t transfer(struct layer *layer, bmi_addr_t server, int direction, void *buffer,
                        bmi_size_t size, const struct bmi_region *region) {
    bmi_op_t op;
    int rc = BMI_post_transfer(layer->bmi, &op, server, direction, buffer, size, region,
                               layer->context, NULL);
    return finish(layer, rc, op, size);
}

static void transfers(struct layer *layer, bmi_addr_t server, struct bmi_region *regions) {
    char *buffer = malloc(SIZE);
    struct bmi_region part;
    CHECK_IS(transfer(layer, server, BMI_GET, buffer, SIZE, &regions[0]), SIZE);
    CHECK(is_filled(buffer, SIZE, 1));
    CHECK_IS(transfer(layer, server, BMI_GET, buffer, SIZE, &regions[1]), SIZE);
    CHECK(is_filled(buffer, SIZE, 2));
    CHECK_IS(BMI_region_part(&regions[1], 100, 1000, &part), 0);
    CHECK_IS(transfer(layer, server, BMI_GET, buffer, 1000, &part), 1000);
    char *expected = malloc(SIZE);
    fill(expected, SIZE, 2);
    CHECK(memcmp(buffer, expected + 100, 1000) == 0);
    free(expected);
    CHECK_IS(transfer(layer, server, BMI_GET, buffer, 999, &part), BMI_ELENGTH);
    CHECK_IS(BMI_region_part(&part, 1000, 0, &part), 0);
    CHECK_IS(BMI_region_part(&part, 0, 1, &part), BMI_EINVAL);
    CHECK_IS(BMI_region_part(&part, -1, 1, &part), BMI_EINVAL);
    CHECK_IS(BMI_region_part(NULL, 0, 0, &part), BMI_EINVAL);
    CHECK_IS(BMI_region_part(&regions[1], 0, 1, NULL), BMI_EINVAL);

    /* Two local pieces into two remote ones, cut elsewhere. */
    fill(buffer, PART, 9);
    fill(buffer + PART, PART, 10);
    struct bmi_region remote[2];
    CHECK_IS(BMI_region_part(&regions[0], 0, PART, &remote[0]), 0);
    remote[1] = regions[2];
    struct iovec local[2] = {{buffer, 1000}, {buffer + 1000, 2 * PART - 1000}};
    bmi_op_t op;
    int rc = BMI_post_transfer_list(layer->bmi, &op, server, BMI_PUT, local, 2, remote, 2,
                                    layer->context, NULL);
    CHECK_IS(finish(layer, rc, op, 2 * PART), 2 * PART);
    CHECK(transfer(layer, server, BMI_PUT, buffer, SIZE, &regions[1]) == BMI_EPROTECTION);
    CHECK(transfer(layer, server, BMI_GET, buffer, PART, &regions[2]) == BMI_EPROTECTION);
    CHECK_IS(transfer(layer, server, 3, buffer, SIZE, &regions[0]), BMI_EINVAL);
    CHECK_IS(transfer(layer, server, BMI_GET, buffer, SIZE, NULL), BMI_EINVAL);
    CHECK_IS(BMI_post_transfer_list(layer->bmi, &op, server, BMI_PUT, local, 2, remote, SIZE_MAX,
                                    layer->context, NULL), BMI_ELIMIT);
    CHECK_IS(op, 0);
    free(buffer);
}

/* A region that is mapped more than once stays until each mapping is freed. */
static void map_again(struct layer *layer, bmi_addr_t server, const struct bmi_region *region,
                      char *mapped) {
    void *same, *front, *inner;
    struct bmi_region part;
    CHECK_IS(BMI_map(layer->bmi, server, region, &same), 0);
    CHECK_IS(BMI_region_part(region, 0, PART, &part), 0);
    CHECK_IS(BMI_map(layer->bmi, server, &part, &front), 0);
    CHECK_IS(BMI_region_part(region, PART, PART, &part), 0);
    CHECK_IS(BMI_map(layer->bmi, server, &part, &inner), 0);
    CHECK(is_filled(same, SIZE, 2) && is_filled(front, PART, 2));
    CHECK(memcmp(inner, mapped + PART, PART) == 0);
    CHECK_IS(send_to(layer, server, mapped, SIZE, MAPPED), SIZE);
    CHECK_IS(send_to(layer, server, mapped + PART + 1, SIZE - PART - 1, MAPPED), SIZE - PART - 1);
    CHECK_IS(BMI_memfree(layer->bmi, inner), 0);
    CHECK_IS(BMI_memfree(layer->bmi, front), 0);
    CHECK_IS(BMI_memfree(layer->bmi, same), 0);
    CHECK(is_filled(mapped, SIZE, 2));
    CHECK_IS(send_to(layer, server, mapped, SIZE, MAPPED), SIZE);
}

static void check_connection(struct layer *layer, bmi_addr_t server) {
    int64_t value;
    char text[4096];
    struct bmi_identity identity;
    CHECK_IS(BMI_get_info(layer->bmi, server, BMI_CONNECTED, &value), 0);
    CHECK_IS(value, 1);
    for (int option = BMI_OPERATIONS; option <= BMI_UNEXPECTED_WAITING; option++) {
        CHECK_IS(BMI_get_info(layer->bmi, 0, option, &value), 0);
        CHECK_IS(value, 0);
    }
    CHECK(BMI_addr_report(layer->bmi, server, text, sizeof text) > 0);
    CHECK(strstr(text, "connection: connected\n") != NULL);
    CHECK(strstr(text, is_shm ? "method: shm\n" : "method: tcp\n") != NULL);
    CHECK_IS(BMI_addr_identity(layer->bmi, server, &identity), 0);
    if (is_shm) {
        CHECK_IS(identity.kind, BMI_IDENTITY_LOCAL);
        CHECK(identity.pid > 0 && identity.uid == getuid() && identity.gid == getgid());
    }
    CHECK_IS(BMI_addr_identity(layer->bmi, server, NULL), BMI_EINVAL);
}

static void options(struct layer *layer, bmi_addr_t server) {
    CHECK_IS(BMI_set_info(layer->bmi, server, BMI_EAGER_LIMIT, 0), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_EAGER_LIMIT, 4096), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_SPIN_US, 0), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_RENDEZVOUS, BMI_PULL), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_RENDEZVOUS, BMI_PUSH), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_RENDEZVOUS, BMI_ADAPTIVE), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_SERVER, 1), 0);
    CHECK_IS(BMI_set_info(layer->bmi, 0, BMI_SERVER, 2), BMI_EINVAL);
}

int main(int argc, char **argv) {
    const char *listen = begin(argc, argv);
    is_shm = strncmp(listen, "shm:", 4) == 0;
    struct child child = start_server(listen, serve);
    struct layer layer = open_layer(NULL);
    bmi_addr_t server = look_up(&layer, child.address);
    void *allocated = NULL;
    CHECK_IS(BMI_memalloc(layer.bmi, server, 0, &allocated), BMI_EINVAL);
    CHECK_IS(BMI_memalloc(layer.bmi, server, SIZE, &allocated), 0);
    CHECK_IS(send_unexpected(&layer, server, "", 1, 1), 1);
    struct bmi_region regions[3];
    CHECK_IS(recv_from(&layer, server, regions, sizeof regions, REGIONS), sizeof regions);
    check_connection(&layer, server);
    transfers(&layer, server, regions);
    void *mapped = &layer;
    CHECK_IS(BMI_map(layer.bmi, server, &regions[0], &mapped), BMI_EUNSUPPORTED);
    CHECK(mapped == NULL);
    if (is_shm) {
        CHECK_IS(BMI_map(layer.bmi, server, &regions[1], &mapped), 0);
        CHECK(is_filled(mapped, SIZE, 2));
        map_again(&layer, server, &regions[1], mapped);
    }
    CHECK_IS(send_to(&layer, server, "", 1, GO), 1);
    char byte;
    CHECK_IS(recv_from(&layer, server, &byte, 1, GO), 1);
    CHECK(transfer(&layer, server, BMI_GET, allocated, SIZE, &regions[0]) == BMI_EPROTECTION);
    if (is_shm) {
        CHECK(is_filled(mapped, SIZE, 2));
        CHECK_IS(BMI_memfree(layer.bmi, mapped), 0);
    }
    options(&layer, server);
    fill(allocated, SIZE, 3);
    CHECK_IS(send_to(&layer, server, allocated, SIZE - 100, GO), SIZE - 100);
    CHECK_IS(send_to(&layer, server, "", 1, GO), 1);
    join(&child);
    CHECK_IS(BMI_addr_release(layer.bmi, server), 0);
    close_layer(&layer); /* and what was allocated with it */
    return 0;
}
