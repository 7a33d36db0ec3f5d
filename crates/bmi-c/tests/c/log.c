/* What the library writes to standard error: a key, to listen at loopback only, is
 * something to warn of. */
#include "common.h"

int main(int argc, char **argv) {
    struct bmi_config config = BMI_CONFIG_INIT;
    bmi_t *bmi;
    uint8_t key[32] = {1};
    config.listen = begin(argc, argv);
    config.key = key;
    for (int i = 0; i < 2; i++) {
        if (BMI_initialize(&bmi, &config) < 0) {
            fprintf(stderr, "refused: %s\n", BMI_last_error());
            return 2;
        }
        CHECK_IS(BMI_finalize(bmi), 0);
    }
    return 0;
}
