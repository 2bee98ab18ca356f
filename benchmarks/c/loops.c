/* Scalar loops with hand-derived reverse sweeps: what the loop needs again is kept, nothing else. */
#include "common.h"

/* x, y, steps -> value, dx, dy:  y <- sin(y) x + y / 2 */
void scalar_loop(void **args) {
    float x = *IN(0), y = *IN(1);
    long steps = INT(2);
    float *kept = malloc(steps * sizeof *kept);
    for (long i = 0; i < steps; i++) {
        kept[i] = y;
        y = sinf(y) * x + y * 0.5f;
    }
    float dx = 0, dy = 1;
    for (long i = steps - 1; i >= 0; i--) {
        float s = sinf(kept[i]), c = cosf(kept[i]);
        dx += dy * s;
        dy = dy * (c * x + 0.5f);
    }
    *OUT(3) = y;
    *OUT(4) = dx;
    *OUT(5) = dy;
    free(kept);
}

/* a, b, c, turns -> value, da, db, dc */
void nested_loops(void **args) {
    float a = *IN(0), b = *IN(1), c = *IN(2);
    long turns = INT(3);
    float *kept = malloc(turns * turns * sizeof *kept); /* the state before each turn; u follows from it */
    float s = 0.5f, total = 0;
    for (long i = 0; i < turns; i++)
        for (long j = 0; j < turns; j++) {
            kept[i * turns + j] = s;
            float u = a * s + c * (j * 0.02f - 1.0f);
            s = u > 0 ? sinf(u) : b * u;
            total += s * s;
        }
    float scale = 1.0f / (turns * turns);
    float da = 0, db = 0, dc = 0, ds = 0;
    for (long i = turns - 1; i >= 0; i--)
        for (long j = turns - 1; j >= 0; j--) {
            float before = kept[i * turns + j], drive = j * 0.02f - 1.0f, u = a * before + c * drive;
            ds += 2 * scale * s;
            float du;
            if (u > 0)
                du = ds * cosf(u);
            else {
                du = ds * b;
                db += ds * u;
            }
            da += du * before;
            dc += du * drive;
            ds = du * a;
            s = before;
        }
    *OUT(4) = total * scale;
    *OUT(5) = da;
    *OUT(6) = db;
    *OUT(7) = dc;
    free(kept);
}

/* a -> value, da:  Newton for x exp(x) = a, per problem until the step is small */
void newton(void **args) {
    const float *a = IN(0);
    long n = INT(1), room = 64;
    float *kept = malloc(room * sizeof *kept), total = 0, *da = OUT(3);
    for (long p = 0; p < n; p++) {
        float x = 1, delta = 1;
        long turns = 0;
        while (fabsf(delta) > 1e-3f) {
            if (turns == room) kept = realloc(kept, (room *= 2) * sizeof *kept);
            kept[turns++] = x;
            float e = expf(x);
            delta = (x * e - a[p]) / (e * (x + 1));
            x -= delta;
        }
        total += x * x;
        float dx = 2 * x, sum = 0;
        while (turns > 0) {
            x = kept[--turns];
            float e = expf(x), q = 1 / (e * (x + 1)), f = x * e - a[p];
            /* x' = x - f q;  f_x = e (x + 1), f_a = -1, q_x = -q^2 e (x + 2) */
            sum += dx * q;
            dx *= f * q * q * e * (x + 2);
        }
        da[p] = sum;
    }
    *OUT(2) = total;
    free(kept);
}
