// How jemalloc, which programs that compile are linked with, takes memory from the system. Lowering walks over trees of small
// nodes: huge pages spare it misses of the address translation.
extern "C" {
extern const char *malloc_conf;
const char *malloc_conf = "thp:always";
}
