/* Work on long arrays: log-sum-exp, least squares, Runge-Kutta 4, Black-Scholes. */
#include "common.h"

/* x -> value, dx */
void logsumexp(void **args) {
    const float *x = IN(0);
    long n = INT(1);
    float *d = OUT(3), top = x[0], total = 0;
    for (long i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (long i = 0; i < n; i++) {
        d[i] = expf(x[i] - top);
        total += d[i];
    }
    float scale = 1 / total;
    for (long i = 0; i < n; i++) d[i] *= scale;
    *OUT(2) = logf(total) + top;
}

/* x (m), a (n,m), y (n) -> value, dx */
void least_squares(void **args) {
    const float *x = IN(0), *a = IN(1), *y = IN(2);
    long n = INT(3), m = INT(4);
    float *d = OUT(6), total = 0, size = 0;
    memset(d, 0, m * sizeof *d);
    for (long i = 0; i < n; i++) {
        const float *row = a + i * m;
        float r = 0;
        for (long j = 0; j < m; j++) r += row[j] * x[j];
        r = y[i] - r;
        total += r * r;
        r *= -2;
        for (long j = 0; j < m; j++) d[j] += r * row[j];
    }
    for (long j = 0; j < m; j++) {
        size += x[j] * x[j];
        d[j] += 0.2f * x[j];
    }
    *OUT(5) = total + 0.1f * size;
}

static void slope(const float *restrict x, const float *restrict y, float *restrict k, long n) {
    k[0] = x[0] * y[0];
    for (long i = 1; i < n; i++) k[i] = x[i] * y[i - 1];
}

/* k = slope(x, y): dx += dk * shifted y; dy = transposed(dk x) */
static void slope_back(const float *restrict x, const float *restrict y, const float *restrict dk, float *restrict dx,
                       float *restrict dy, long n) {
    dx[0] += dk[0] * y[0];
    for (long i = 1; i < n; i++) dx[i] += dk[i] * y[i - 1];
    for (long i = 0; i < n - 1; i++) dy[i] = dk[i + 1] * x[i + 1];
    dy[n - 1] = 0;
    dy[0] += dk[0] * x[0];
}

static void along(float *restrict out, const float *restrict y, float h, const float *restrict k, long n) {
    for (long i = 0; i < n; i++) out[i] = y[i] + h * k[i];
}

/* x, y -> value, dx. The state before each step is kept, the stages are computed again. */
void ode(void **args) {
    const float *x = IN(0);
    long n = INT(2);
    enum { STEPS = 10 };
    const float h = 0.1f;
    float *room = malloc((STEPS + 12) * n * sizeof *room), *kept = room, *y = room + STEPS * n;
    float *k1 = y + n, *k2 = k1 + n, *k3 = k2 + n, *k4 = k3 + n, *y2 = k4 + n, *y3 = y2 + n, *y4 = y3 + n, *dy = y4 + n;
    float *dk = dy + n, *ds = dk + n;
    memcpy(y, IN(1), n * sizeof *y);
    for (long t = 0; t < STEPS; t++) {
        memcpy(kept + t * n, y, n * sizeof *y);
        slope(x, y, k1, n);
        along(y2, y, h / 2, k1, n), slope(x, y2, k2, n);
        along(y3, y, h / 2, k2, n), slope(x, y3, k3, n);
        along(y4, y, h, k3, n), slope(x, y4, k4, n);
        for (long i = 0; i < n; i++) y[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    }
    float total = 0, *dx = OUT(4);
    for (long i = 0; i < n; i++) {
        total += y[i] * y[i];
        dy[i] = 2 * y[i] / n;
    }
    memset(dx, 0, n * sizeof *dx);
    for (long t = STEPS - 1; t >= 0; t--) {
        y = kept + t * n;
        slope(x, y, k1, n);
        along(y2, y, h / 2, k1, n), slope(x, y2, k2, n);
        along(y3, y, h / 2, k2, n), slope(x, y3, k3, n);
        along(y4, y, h, k3, n);
        /* reuse k1..k4 as the cotangents of the stages */
        for (long i = 0; i < n; i++) k4[i] = h / 6 * dy[i];
        slope_back(x, y4, k4, dx, ds, n);
        for (long i = 0; i < n; i++) k3[i] = h / 3 * dy[i] + h * ds[i], dk[i] = ds[i];
        slope_back(x, y3, k3, dx, ds, n);
        for (long i = 0; i < n; i++) k2[i] = h / 3 * dy[i] + h / 2 * ds[i], dk[i] += ds[i];
        slope_back(x, y2, k2, dx, ds, n);
        for (long i = 0; i < n; i++) k1[i] = h / 6 * dy[i] + h / 2 * ds[i], dk[i] += ds[i];
        slope_back(x, y, k1, dx, ds, n);
        for (long i = 0; i < n; i++) dy[i] += dk[i] + ds[i];
    }
    *OUT(3) = total / n;
    free(room);
}

enum { BLOCK = 4096 };

/* spot, strike, time -> value, dspot, dstrike, dtime */
void black_scholes(void **args) {
    const float *spot = IN(0), *strike = IN(1), *time = IN(2);
    long n = INT(3);
    float *restrict ds = OUT(5), *restrict dk = OUT(6), *restrict dt = OUT(7);
    const float rate = 0.03f, vol = 0.25f, root = 0.70710678f, peak = 0.39894228f, scale = 1.0f / n;
    double total = 0;
    for (long first = 0; first < n; first += BLOCK) { /* sums of blocks in float, of all in double */
        long last = first + BLOCK < n ? first + BLOCK : n;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (long i = first; i < last; i++) {
            float sq = sqrtf(time[i]), spread = vol * sq;
            float d1 = (logf(spot[i] / strike[i]) + (rate + 0.5f * vol * vol) * time[i]) / spread, d2 = d1 - spread;
            float n1 = 0.5f + 0.5f * erff(d1 * root), n2 = 0.5f + 0.5f * erff(d2 * root), paid = strike[i] * expf(-rate * time[i]);
            part += spot[i] * n1 - paid * n2;
            /* the terms by d1 and d2 cancel but for the spread: spot phi(d1) = paid phi(d2) */
            float density = peak * expf(-0.5f * d1 * d1);
            ds[i] = scale * n1;
            dk[i] = -scale * paid / strike[i] * n2;
            dt[i] = scale * (spot[i] * density * 0.5f * vol / sq + rate * paid * n2);
        }
        total += part;
    }
    *OUT(4) = total * scale;
}
