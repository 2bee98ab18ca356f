/* N bodies, symplectic Euler. p (N,3), v (N,3), mass, steps -> value, dp. Positions of all steps are kept. */
#include "common.h"

enum { N = 16 };
static const float STEP = 1e-3f, SOFT = 0.1f;

/* coordinates apart (x of all bodies, then y, then z), so that the inner loops vectorise */
void nbody(void **args) {
    const float *p0 = IN(0), *v0 = IN(1), *mass = IN(2);
    long steps = INT(3);
    float (*kept)[3][N] = malloc(steps * sizeof *kept), p[3][N], v[3][N];
    for (int i = 0; i < N; i++)
        for (int c = 0; c < 3; c++) p[c][i] = p0[3 * i + c], v[c][i] = v0[3 * i + c];
    for (long t = 0; t < steps; t++) {
        memcpy(kept[t], p, sizeof p);
        for (int i = 0; i < N; i++) {
            float ax = 0, ay = 0, az = 0;
#pragma omp simd reduction(+ : ax, ay, az)
            for (int j = 0; j < N; j++) {
                float x = p[0][j] - p[0][i], y = p[1][j] - p[1][i], z = p[2][j] - p[2][i];
                float s = x * x + y * y + z * z + SOFT, q = mass[j] / (s * sqrtf(s));
                ax += x * q, ay += y * q, az += z * q;
            }
            v[0][i] += STEP * ax, v[1][i] += STEP * ay, v[2][i] += STEP * az;
        }
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < N; i++) p[c][i] += STEP * v[c][i];
    }
    float total = 0, dp[3][N], dv[3][N] = {{0}};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < N; i++) total += p[c][i] * p[c][i], dp[c][i] = 2 * p[c][i];
    for (long t = steps - 1; t >= 0; t--) {
        memcpy(p, kept[t], sizeof p);
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < N; i++) dv[c][i] += STEP * dp[c][i];
        for (int i = 0; i < N; i++) {
            float gx = STEP * dv[0][i], gy = STEP * dv[1][i], gz = STEP * dv[2][i], sx = 0, sy = 0, sz = 0;
#pragma omp simd reduction(+ : sx, sy, sz)
            for (int j = 0; j < N; j++) {
                float x = p[0][j] - p[0][i], y = p[1][j] - p[1][i], z = p[2][j] - p[2][i];
                float s = x * x + y * y + z * z + SOFT, q = mass[j] / (s * sqrtf(s));
                /* a = d q(s), q_s = -1.5 q / s: dd = q g - 3 q / s (d.g) d */
                float k = -3 * q / s * (x * gx + y * gy + z * gz);
                float ux = q * gx + k * x, uy = q * gy + k * y, uz = q * gz + k * z;
                dp[0][j] += ux, dp[1][j] += uy, dp[2][j] += uz;
                sx += ux, sy += uy, sz += uz;
            }
            dp[0][i] -= sx, dp[1][i] -= sy, dp[2][i] -= sz;
        }
    }
    *OUT(4) = total;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < 3; c++) OUT(5)[3 * i + c] = dp[c][i];
    free(kept);
}
