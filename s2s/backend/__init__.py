"""How operations are computed: C kernels, CUDA graphs, prepacked linear maps, and the selection among them."""
