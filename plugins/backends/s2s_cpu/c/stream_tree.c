/* The nodes of a stream's trees. All sentences take them from the same memory, so that a node that becomes free serves
any sentence, and none is ever moved to make room; the memory grows with the nodes in use. See stream.h.
*/

#include "stream.h"

enum { LEAST_ROOM = 64 };

/* Memory for n_bytes in place of that which `pointer` points to; as before if memory runs out. */
int64_t s2s_resize(void *pointer, int64_t n_bytes) {
    void *before, *after;
    memcpy(&before, pointer, sizeof before);
    if (!(after = realloc(before, n_bytes ? n_bytes : 1))) return NO_MEMORY;
    memcpy(pointer, &after, sizeof after);
    return OK;
}

/* A tree without nodes, for the layers of a model. */
int64_t s2s_tree_new(Tree *t, const Model *m, const Stack *stack) {
    *t = (Tree){.first_free = ROOT, .n_layers = m->n_layers, .layers = allocate(m->n_layers * sizeof(Layer))};
    if (!t->layers) return NO_MEMORY;
    memcpy(t->layers, m->layers, m->n_layers * sizeof(Layer));
    for (int64_t i = 0; i < t->n_layers; i++) {
        Layer *layer = t->layers + i;
        layer->nodes = 0, layer->number = i;
        layer->node_width = layer->forget.weight ? stack->D : stack->h * (stack->d_k + stack->d_v);
        if (layer->cell.hidden.weight) layer->node_width = 2 * layer->cell.hidden.I;
    }
    return OK;
}

/* Nodes of a layer begin on lines of 64 bytes, if a node fills whole ones. */
static int64_t resize_nodes(Layer *layer, int64_t n_used, int64_t room) {
    const int64_t width = layer->node_width * sizeof(float);
    float *nodes = aligned_alloc(64, (room * width + 63) / 64 * 64);
    if (!nodes) return NO_MEMORY;
    if (n_used) memcpy(nodes, layer->nodes, n_used * width);
    free(layer->nodes);
    layer->nodes = nodes;
    return OK;
}

/* Makes room for n more nodes. */
int64_t s2s_tree_reserve(Tree *t, int64_t n) {
    const int64_t needed = t->n_taken - t->n_free + n, larger = t->room + t->room / 2;
    if (needed <= t->room) return OK;
    int64_t room = needed > larger ? needed : larger;
    room = room > LEAST_ROOM ? room : LEAST_ROOM;
    if (s2s_resize(&t->parent, room * sizeof(int64_t)) || s2s_resize(&t->token, room * sizeof(int64_t)) ||
        s2s_resize(&t->n_uses, room * sizeof(int64_t)) || s2s_resize(&t->log_prob, room * sizeof(float)))
        return NO_MEMORY;
    for (Layer *layer = t->layers; layer < t->layers + t->n_layers; layer++)
        if (resize_nodes(layer, t->n_taken, room)) return NO_MEMORY;
    t->room = room;
    return OK;
}

/* A new node, for which there must be room, with one use. */
int64_t s2s_tree_add(Tree *t, int64_t parent, int64_t token, float log_prob) {
    int64_t node = t->first_free;
    if (t->n_free)
        t->first_free = t->parent[node], t->n_free--;
    else
        node = t->n_taken++;
    t->parent[node] = parent, t->token[node] = token, t->log_prob[node] = log_prob, t->n_uses[node] = 1;
    if (parent != ROOT) t->n_uses[parent]++;
    return node;
}

/* Ends a use of a node, which without uses becomes free, as do those before it that only it used. */
void s2s_tree_release(Tree *t, int64_t node) {
    while (node != ROOT && !--t->n_uses[node]) {
        const int64_t before = t->parent[node];
        t->parent[node] = t->first_free, t->first_free = node, t->n_free++;
        node = before;
    }
}

/* The n nodes that end in `node` */
void s2s_tree_path(const Tree *t, int64_t node, int64_t n, int64_t *path) {
    for (int64_t i = n; i-- > 0; node = t->parent[node]) path[i] = node;
}

/* Frees the memory of all nodes, none of which is in use. */
void s2s_tree_free(Tree *t) {
    free(t->parent), free(t->token), free(t->n_uses), free(t->log_prob);
    for (Layer *layer = t->layers; layer < t->layers + t->n_layers; layer++) free(layer->nodes), layer->nodes = 0;
    *t = (Tree){.first_free = ROOT, .layers = t->layers, .n_layers = t->n_layers};
}
