/* Forward substitution and the Levinson-Durbin recursion, with reverse sweeps. */
#include "common.h"

static float dot(const float *a, const float *b, long n) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < n; i++) total += a[i] * b[i];
    return total;
}

/* m (n,n), b -> value, dm, db */
void triangular(void **args) {
    const float *m = IN(0), *b = IN(1);
    long n = INT(2);
    float *x = malloc(n * sizeof *x), *dx = malloc(n * sizeof *dx), *dm = OUT(4), *db = OUT(5);
    for (long i = 0; i < n; i++) x[i] = (b[i] - dot(m + i * n, x, i)) / m[i * n + i];
    *OUT(3) = dot(x, x, n);
    for (long i = 0; i < n; i++) dx[i] = 2 * x[i];
    for (long i = n - 1; i >= 0; i--) {
        const float *row = m + i * n;
        float *drow = dm + i * n, t = dx[i] / row[i];
        db[i] = t;
        for (long j = 0; j < i; j++) {
            drow[j] = -t * x[j];
            dx[j] -= t * row[j];
        }
        drow[i] = -t * x[i];
        memset(drow + i + 1, 0, (n - i - 1) * sizeof *drow);
    }
    free(x);
    free(dx);
}

/* r -> value, dr. The vectors y of all steps are kept, packed in a triangle: y of step k has k elements before the step. */
void durbin(void **args) {
    const float *r = IN(0);
    long n = INT(1);
    float *kept = malloc(n * (n + 1) / 2 * sizeof *kept), *y = malloc(n * sizeof *y), *next = malloc(n * sizeof *next);
    float *alphas = malloc(n * sizeof *alphas), *betas = malloc(n * sizeof *betas), *dr = OUT(3);
    y[0] = alphas[0] = -r[0];
    betas[0] = 1;
    for (long k = 1; k < n; k++) {
        float *before = kept + k * (k - 1) / 2;
        memcpy(before, y, k * sizeof *y);
        betas[k] = (1 - alphas[k - 1] * alphas[k - 1]) * betas[k - 1];
        float total = r[k];
#pragma omp simd reduction(+ : total)
        for (long i = 0; i < k; i++) total += r[k - 1 - i] * before[i];
        float alpha = alphas[k] = -total / betas[k];
        for (long i = 0; i < k; i++) y[i] = before[i] + alpha * before[k - 1 - i];
        y[k] = alpha;
    }
    *OUT(2) = dot(y, y, n);
    float *dy = next, dalpha = 0, dbeta = 0;
    for (long i = 0; i < n; i++) dy[i] = 2 * y[i];
    memset(dr, 0, n * sizeof *dr);
    for (long k = n - 1; k > 0; k--) {
        const float *before = kept + k * (k - 1) / 2;
        float alpha = alphas[k], beta = betas[k];
        dalpha += dy[k];
#pragma omp simd reduction(+ : dalpha)
        for (long i = 0; i < k; i++) dalpha += dy[i] * before[k - 1 - i];
        /* y_i = before_i + alpha before_{k-1-i}: the transposed map is the same */
        for (long i = 0, j = k - 1; i <= j; i++, j--) {
            float di = dy[i], dj = dy[j];
            dy[i] = di + alpha * dj;
            dy[j] = i == j ? dy[i] : dj + alpha * di;
        }
        /* alpha = -total / beta */
        float dtotal = -dalpha / beta;
        dbeta -= dalpha * alpha / beta;
        dr[k] += dtotal;
        for (long i = 0; i < k; i++) {
            dr[k - 1 - i] += dtotal * before[i];
            dy[i] += dtotal * r[k - 1 - i];
        }
        /* beta = (1 - last^2) beta_before */
        float last = alphas[k - 1];
        dalpha = -2 * last * betas[k - 1] * dbeta;
        dbeta = (1 - last * last) * dbeta;
    }
    dr[0] -= dalpha + dy[0];
    free(kept);
    free(y);
    free(next);
    free(alphas);
    free(betas);
}
