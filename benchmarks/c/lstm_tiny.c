/* LSTM with H units over T steps, one sequence. w (F,4H), u (H,4H), b (4H), xs (T,F) -> value, dw, du, db. */
#include "common.h"

enum { F = 8, H = 8, G = 4 * H };

static inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

void lstm_tiny(void **args) {
    const float *w = IN(0), *u = IN(1), *b = IN(2), *xs = IN(3);
    long T = INT(4);
    float *gates = malloc(T * G * sizeof *gates), *cells = malloc((T + 1) * H * sizeof *cells);
    float *states = malloc((T + 1) * H * sizeof *states), total = 0;
    memset(cells, 0, H * sizeof *cells);
    memset(states, 0, H * sizeof *states);
    for (long t = 0; t < T; t++) {
        const float *x = xs + t * F, *h = states + t * H, *c = cells + t * H;
        float *g = gates + t * G, *next = states + (t + 1) * H, *cell = cells + (t + 1) * H;
        float z[G];
        memcpy(z, b, sizeof z);
        for (int k = 0; k < F; k++)
            for (int j = 0; j < G; j++) z[j] += x[k] * w[k * G + j];
        for (int k = 0; k < H; k++)
            for (int j = 0; j < G; j++) z[j] += h[k] * u[k * G + j];
        for (int j = 0; j < H; j++) {
            g[j] = sigmoid(z[j]);
            g[H + j] = sigmoid(z[H + j]);
            g[2 * H + j] = tanhf(z[2 * H + j]);
            g[3 * H + j] = sigmoid(z[3 * H + j]);
            cell[j] = g[H + j] * c[j] + g[j] * g[2 * H + j];
            next[j] = g[3 * H + j] * tanhf(cell[j]);
            total += next[j] * next[j];
        }
    }
    float *dw = OUT(6), *du = OUT(7), *db = OUT(8), dh[H] = {0}, dc[H] = {0};
    memset(dw, 0, F * G * sizeof *dw);
    memset(du, 0, H * G * sizeof *du);
    memset(db, 0, G * sizeof *db);
    for (long t = T - 1; t >= 0; t--) {
        const float *x = xs + t * F, *h = states + t * H, *c = cells + t * H, *g = gates + t * G;
        const float *next = states + (t + 1) * H, *cell = cells + (t + 1) * H;
        float dz[G];
        for (int j = 0; j < H; j++) {
            float i = g[j], f = g[H + j], m = g[2 * H + j], o = g[3 * H + j];
            float d = dh[j] + 2.0f / T * next[j], r = tanhf(cell[j]);
            float k = dc[j] + d * o * (1 - r * r);
            dz[j] = k * m * i * (1 - i);
            dz[H + j] = k * c[j] * f * (1 - f);
            dz[2 * H + j] = k * i * (1 - m * m);
            dz[3 * H + j] = d * r * o * (1 - o);
            dc[j] = k * f;
        }
        for (int j = 0; j < G; j++) db[j] += dz[j];
        for (int k = 0; k < F; k++)
            for (int j = 0; j < G; j++) dw[k * G + j] += x[k] * dz[j];
        for (int k = 0; k < H; k++) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int j = 0; j < G; j++) {
                du[k * G + j] += h[k] * dz[j];
                sum += u[k * G + j] * dz[j];
            }
            dh[k] = sum;
        }
    }
    *OUT(5) = total / T;
    free(gates);
    free(cells);
    free(states);
}
