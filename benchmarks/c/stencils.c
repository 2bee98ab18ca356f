/* In-place stencils. They are linear: the reverse sweep is the transposed stencil and needs nothing of the forward one. */
#include "common.h"

static float squares(const float *a, long n) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < n; i++) total += a[i] * a[i];
    return total;
}

static void five_points(const float *restrict a, float *restrict b, long n) {
    for (long i = 1; i < n - 1; i++)
        for (long j = 1; j < n - 1; j++)
            b[i * n + j] = 0.2f * (a[i * n + j] + a[i * n + j - 1] + a[i * n + j + 1] + a[(i + 1) * n + j] + a[(i - 1) * n + j]);
}

/* b[inside] = five_points(a): da += transposed(db[inside]), db[inside] = 0 */
static void five_points_back(float *restrict da, float *restrict db, long n) {
    for (long i = 1; i < n - 1; i++) {
        float *up = da + (i - 1) * n, *at = da + i * n, *down = da + (i + 1) * n, *d = db + i * n;
        for (long j = 1; j < n - 1; j++) {
            float t = 0.2f * d[j];
            up[j] += t;
            down[j] += t;
        }
        /* along the row: gathered, so that it vectorises */
        at[0] += 0.2f * d[1];
        at[n - 1] += 0.2f * d[n - 2];
        /* the border of db belongs to b itself: it is not part of the sums */
        float left = d[0], right = d[n - 1];
        d[0] = d[n - 1] = 0;
        for (long j = 1; j < n - 1; j++) at[j] += 0.2f * (d[j - 1] + d[j] + d[j + 1]);
        memset(d, 0, n * sizeof *d);
        d[0] = left;
        d[n - 1] = right;
    }
}

/* a, steps -> value, da */
void jacobi(void **args) {
    long steps = INT(1), n = INT(2), size = n * n;
    float *a = malloc(size * sizeof *a), *b = malloc(size * sizeof *b);
    memcpy(a, IN(0), size * sizeof *a);
    memcpy(b, IN(0), size * sizeof *b);
    for (long t = 0; t < steps; t++) {
        five_points(a, b, n);
        five_points(b, a, n);
    }
    *OUT(3) = squares(a, size);
    float *da = OUT(4), *db = b;
    for (long i = 0; i < size; i++) da[i] = 2 * a[i];
    memset(db, 0, size * sizeof *db);
    for (long t = 0; t < steps; t++) {
        five_points_back(db, da, n);
        five_points_back(da, db, n);
    }
    for (long i = 0; i < size; i++) da[i] += db[i];
    free(a);
    free(b);
}

static void heated(const float *restrict a, float *restrict b, long n) {
    long s = n * n;
    for (long i = 1; i < n - 1; i++)
        for (long j = 1; j < n - 1; j++)
            for (long k = 1; k < n - 1; k++) {
                const float *p = a + i * s + j * n + k;
                b[i * s + j * n + k] = 0.125f * (p[s] - 2 * p[0] + p[-s]) + 0.125f * (p[n] - 2 * p[0] + p[-n]) +
                                       0.125f * (p[1] - 2 * p[0] + p[-1]) + p[0];
            }
}

static void heated_back(float *restrict da, float *restrict db, long n) {
    long s = n * n;
    for (long i = 1; i < n - 1; i++)
        for (long j = 1; j < n - 1; j++) {
            float *p = da + i * s + j * n, *d = db + i * s + j * n;
            for (long k = 1; k < n - 1; k++) {
                float t = 0.125f * d[k];
                p[k + s] += t;
                p[k - s] += t;
                p[k + n] += t;
                p[k - n] += t;
            }
            float left = d[0], right = d[n - 1];
            d[0] = d[n - 1] = 0;
            p[0] += 0.125f * d[1];
            p[n - 1] += 0.125f * d[n - 2];
            for (long k = 1; k < n - 1; k++) p[k] += 0.25f * d[k] + 0.125f * (d[k - 1] + d[k + 1]);
            memset(d, 0, n * sizeof *d);
            d[0] = left;
            d[n - 1] = right;
        }
}

void heat(void **args) {
    long steps = INT(1), n = INT(2), size = n * n * n;
    float *a = malloc(size * sizeof *a), *b = malloc(size * sizeof *b);
    memcpy(a, IN(0), size * sizeof *a);
    memcpy(b, IN(0), size * sizeof *b);
    for (long t = 0; t < steps; t++) {
        heated(a, b, n);
        heated(b, a, n);
    }
    *OUT(3) = squares(a, size);
    float *da = OUT(4), *db = b;
    for (long i = 0; i < size; i++) da[i] = 2 * a[i];
    memset(db, 0, size * sizeof *db);
    for (long t = 0; t < steps; t++) {
        heated_back(db, da, n);
        heated_back(da, db, n);
    }
    for (long i = 0; i < size; i++) da[i] += db[i];
    free(a);
    free(b);
}

void seidel(void **args) {
    long steps = INT(1), n = INT(2), size = n * n;
    float *a = malloc(size * sizeof *a), *d = OUT(4);
    memcpy(a, IN(0), size * sizeof *a);
    for (long t = 0; t < steps; t++)
        for (long i = 1; i < n - 1; i++)
            for (long j = 1; j < n - 1; j++) {
                float *p = a + i * n + j;
                float above = p[-n - 1] + p[-n] + p[-n + 1], below = p[n - 1] + p[n] + p[n + 1];
                p[0] = (above + below + p[0] + p[1] + p[-1]) * (1.0f / 9.0f);
            }
    *OUT(3) = squares(a, size);
    for (long i = 0; i < size; i++) d[i] = 2 * a[i];
    for (long t = 0; t < steps; t++)
        for (long i = n - 2; i > 0; i--)
            for (long j = n - 2; j > 0; j--) {
                float *p = d + i * n + j, s = p[0] * (1.0f / 9.0f);
                p[0] = s;
                p[-n - 1] += s, p[-n] += s, p[-n + 1] += s;
                p[-1] += s, p[1] += s;
                p[n - 1] += s, p[n] += s, p[n + 1] += s;
            }
    free(a);
}
