// Between two sets of sizes of decoder_kernels.cuh: included several times.
#undef HEAD
#undef HEADS
#undef KV_HEADS
#undef GROUP
#undef PAGE
#undef TYPE
