/* LogAvgExp of rows and its gradients: the formulas of plain.py, one pass for the maximum and the mean, one for the sums.
 *
 * For a row z of n values with maximum m, reference point c (its mean, or m if that is far above) and d = c - z:
 *
 *     exp(-d / t)  =  2^-k 2^r  =  2^-k + 2^-k (2^r - 1),     d / (t ln 2) = k - r,  k whole, |r| <= 1/2
 *     L            =  log(mean exp(-d / t))                    LAE       =  c + t L
 *     dLAE / dz_i  =  exp(-d_i / t) / sum exp(-d / t)          dLAE / dt =  -mean phi(-d / t - L)
 *
 * The two terms of the exponential are summed apart. Where all d are small, the first ones add up to n exactly, and the
 * others are the expm1 that keeps L exact.
 *
 * A tensor is (outer, n, inner) in memory, and rows go along the middle. All loops run over "lanes" that are neighbours:
 * 16 or more rows side by side, or 16 neighbours of one row, whose sums are added in the end. Their number is a multiple
 * of 16, so that every element meets the same instructions: the bits of a result depend on its row, n and the layout.
 * Short float sums are added to double ones. The compiler turns the loops over lanes into vector instructions.
 *
 * This file is read twice more by itself: REAL is float (also for half types) or double.
 */
#ifndef REAL
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_CPU
#endif
#define SIMD _Pragma("omp simd")

enum { FLOAT32, BFLOAT16, FLOAT16, FLOAT64 }; /* as in cpu.py */
enum { LANES = 16, WIDTH = 256 };   /* neighbours that meet the same instructions; most lanes at once */
enum { STEPS = 8, BUFFER = 8192 }; /* elements of a lane that are added up in REAL; elements in a buffer */
enum { LONG = BUFFER / LANES };    /* shorter rows along memory are transposed to lie side by side */
#define FULL(count) (((count) + LANES - 1) / LANES * LANES)
#define LN2 0.693147180559945309417
#define NEAR 6 /* the mean is the reference point if m is less than this many t ln 2 above it */

typedef struct {
    const void *z, *t, *grad; /* grad: of the value; NULL in the forward pass */
    void *value, *kept, *grad_z, *grad_t;
    int64_t outer, n, inner, t_step; /* t_step: 0 if all rows share t, else 1 */
    int32_t dtype;
    int64_t per_unit, units, next; /* rows of a unit of work, number of units, next unit to do */
} Job;

/* Lanes 0 to count: step i of lane j is at z[at + i * step + j * across]. Of `tail` lanes there is one step more. */
typedef struct {
    int64_t at, step, across, steps, count, tail;
    int64_t row, rows; /* the first row, and how many: as many as lanes, or one */
} Strip;

INLINE uint32_t bits_f32(float x) { uint32_t i; memcpy(&i, &x, 4); return i; }
INLINE float from_f32(uint32_t i) { float x; memcpy(&x, &i, 4); return x; }
INLINE uint64_t bits_f64(double x) { uint64_t i; memcpy(&i, &x, 8); return i; }
INLINE double from_f64(uint64_t i) { double x; memcpy(&x, &i, 8); return x; }

INLINE float from_bfloat16(uint16_t h) { return from_f32((uint32_t)h << 16); }

INLINE uint16_t to_bfloat16(float x) { /* to nearest, ties to even */
    uint32_t b = bits_f32(x), rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    return x != x ? 0x7fc0 : (uint16_t)rounded;
}

INLINE float from_float16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff) << 13;
    float x = from_f32(magnitude) * 0x1p112f; /* the exponent has another bias; subnormals come out right */
    return from_f32((magnitude >= 0x0f800000 ? 0x7f800000 | magnitude : bits_f32(x)) | sign);
}

INLINE uint16_t to_float16(float x) { /* to nearest, ties to even */
    uint32_t b = bits_f32(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
    uint32_t subnormal = bits_f32(from_f32(a) + 0.5f) - 0x3f000000; /* this sum is rounded to multiples of 2^-24 */
    uint32_t normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
    uint32_t h = a < 0x38800000 ? subnormal : a >= 0x47800000 ? 0x7c00 : normal;
    return (uint16_t)((a > 0x7f800000 ? 0x7e00 : h) | sign);
}

/* 8 by 8 numbers with rows and columns exchanged */
INLINE void transpose(const float *x, int64_t x_stride, float *y, int64_t y_stride) {
#if defined(__clang__) || __GNUC__ >= 12
    typedef float V __attribute__((vector_size(32)));
    V a[8], b[8];
    for (int i = 0; i < 8; i++) memcpy(&a[i], x + i * x_stride, 32);
    for (int i = 0; i < 4; i++) { /* pairs of rows, then pairs of pairs, then halves */
        b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 4; i++) {
        const int from = i % 2 + i / 2 * 4;
        a[from] = __builtin_shufflevector(b[from], b[from + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[from + 2] = __builtin_shufflevector(b[from], b[from + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) memcpy(y + i * y_stride, &b[i], 32);
#else
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) y[j * y_stride + i] = x[i * x_stride + j];
#endif
}

/* log(y), where y = 1 + x and x is the more exact one if y is near 1: 2 atanh(x / (2 + x)) by its power series */
INLINE double log_1p(double x, double y) {
    const uint64_t bits = bits_f64(y), k = (bits - 0x3fe6a09e667f3bcd + 0x3ff0000000000000) >> 52; /* y = 2^(k - 1023) f */
    const double e = from_f64(k | 0x4330000000000000) - (0x1p52 + 1023), f = from_f64(bits - ((k - 1023) << 52));
    const double g = e == 0 ? x : f - 1, s = g / (2 + g), q = s * s; /* sqrt(1/2) <= f < sqrt(2), so q < 0.03 */
    double p = 1 / 21.;
    for (int i = 19; i > 0; i -= 2) p = p * q + 1. / i;
    return e * LN2 + 2 * s * p + 0 * x; /* nan stays nan */
}

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#define REAL float
#define BITS uint32_t
#define F(name) PASTE(name, _f32)
#define MANTISSA 23
#define BIAS 127
#define EXP2_TERMS 7
#define PHI_TERMS 8
#include "kernel.c"
#undef REAL
#undef BITS
#undef F
#undef MANTISSA
#undef BIAS
#undef EXP2_TERMS
#undef PHI_TERMS
#define REAL double
#define BITS uint64_t
#define F(name) PASTE(name, _f64)
#define MANTISSA 52
#define BIAS 1023
#define EXP2_TERMS 13
#define PHI_TERMS 16
#include "kernel.c"

EACH_CPU static void do_unit(const Job *job, int64_t unit) {
    const int64_t n = job->n, inner = job->inner, strips = (inner + job->per_unit - 1) / job->per_unit;
    const int side_by_side = inner > 1, alone = !side_by_side && n >= LONG;
    int64_t row = unit * job->per_unit, rows = job->outer - row, at = row * n;
    if (side_by_side) {
        const int64_t o = unit / strips, column = unit % strips * job->per_unit;
        row = o * inner + column, rows = inner - column, at = o * n * inner + column;
    }
    if (rows > job->per_unit) rows = job->per_unit;
    Strip strip = {at, inner, 1, n, rows, 0, row, rows};
    if (!side_by_side) strip.step = 1, strip.across = n;
    if (!side_by_side && job->grad && !job->grad_t) {
        if (job->dtype == FLOAT64) gradient_along_f64(job, row, rows);
        else gradient_along_f32(job, row, rows);
        return;
    }
    for (int64_t k = 0; k < (alone ? rows : 1); k++) {
        if (alone) strip = (Strip){at + k * n, LANES, 1, n / LANES, LANES, n % LANES, row + k, 1};
        if (job->dtype == FLOAT64) job->grad ? backward_f64(job, &strip) : forward_f64(job, &strip);
        else job->grad ? backward_f32(job, &strip) : forward_f32(job, &strip);
    }
}

static void do_units(void *data) {
    Job *job = data;
    for (int64_t unit; (unit = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->units;) do_unit(job, unit);
}

/* grad_t is that of each row, and sum_t their sum if all rows share t; both NULL if not wanted.
 * `parallel` is GOMP_parallel of the OpenMP that torch runs on, or NULL. */
void lae_run(const void *z, const void *t, const void *grad, void *value, void *kept, void *grad_z, void *grad_t,
             void *sum_t, int64_t outer, int64_t n, int64_t inner, int64_t t_step, int32_t dtype, int32_t threads,
             void (*parallel)(void (*)(void *), void *, unsigned, unsigned)) {
    const int64_t rows = outer * inner;
    Job job = {z, t, grad, value, kept, grad_z, grad_t, outer, n, inner, t_step, dtype, 0, 0, 0};
    int64_t width = (dtype == FLOAT32 ? 100000 : BUFFER) / n / LANES * LANES; /* so that a strip stays in the cache */
    job.per_unit = inner == 1 ? LANES : width < WIDTH / 4 ? WIDTH / 4 : width < WIDTH ? width : WIDTH;
    job.units = inner == 1 ? (outer + job.per_unit - 1) / job.per_unit : outer * ((inner + job.per_unit - 1) / job.per_unit);
    if (threads > 1 && parallel && job.units > 1 && rows * n >= 32768) parallel(do_units, &job, (unsigned)threads, 0);
    else do_units(&job);
    if (sum_t) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += dtype == FLOAT64 ? ((double *)grad_t)[i] : ((float *)grad_t)[i];
        if (dtype == FLOAT64) *(double *)sum_t = sum;
        else *(float *)sum_t = (float)sum;
    }
}

#else /* for each REAL */

/* ln(2)^k / k! and (k + 1) / (k + 2)!, from k = 1 and k = 0 */
static const REAL F(EXP2)[] = {
    (REAL)0.69314718055994530942, (REAL)0.24022650695910071233, (REAL)0.055504108664821579953, (REAL)0.0096181291076284771619,
    (REAL)0.0013333558146428443423, (REAL)0.00015403530393381609954, (REAL)1.5252733804059840280e-05,
    (REAL)1.3215486790144309488e-06, (REAL)1.0178086009239699728e-07, (REAL)7.0549116208011233299e-09,
    (REAL)4.4455382718708114976e-10, (REAL)2.5678435993488205142e-11, (REAL)1.3691488853904128881e-12};
static const REAL F(PHI)[] = {
    (REAL)(1 / 2.), (REAL)(1 / 3.), (REAL)(1 / 8.), (REAL)(1 / 30.), (REAL)(1 / 144.), (REAL)(1 / 840.), (REAL)(1 / 5760.),
    (REAL)(1 / 45360.), (REAL)(1 / 403200.), (REAL)(1 / 3991680.), (REAL)(1 / 43545600.), (REAL)(1 / 518918400.),
    (REAL)(1 / 6706022400.), (REAL)(1 / 93405312000.), (REAL)(1 / 1394852659200.), (REAL)(1 / 22230464256000.)};

/* 2^-k and 2^-k (2^r - 1), whose sum is exp(-d / t); per is 1 / (t ln 2) */
INLINE REAL F(terms)(REAL d, REAL per, REAL *rest) {
    const REAL magic = (REAL)(1.5 * ((BITS)1 << MANTISSA) + BIAS); /* numbers of this size are whole */
    REAL shifted = magic - d * per, power = F(from)(F(bits)(shifted) << MANTISSA);
    REAL r = (magic - shifted) - d * per, p = F(EXP2)[EXP2_TERMS - 1];
    for (int i = EXP2_TERMS - 2; i >= 0; i--) p = p * r + F(EXP2)[i];
    *rest = p * r * power;
    return power;
}

/* x exp(x) - expm1(x), given exp(x) */
INLINE REAL F(phi)(REAL x, REAL exp_x) {
    REAL p = F(PHI)[PHI_TERMS - 1];
    for (int i = PHI_TERMS - 2; i >= 0; i--) p = p * x + F(PHI)[i];
    REAL far = 1 - (1 - x) * exp_x;
    return x > (REAL)-0.5 && x < (REAL)0.5 ? p * x * x : far;
}

/* c - x, but no more than 2^-k can hold; nan stays nan */
INLINE REAL F(distance)(REAL x, REAL c, REAL most) {
    REAL d = c - x;
    return d > most ? most : d;
}

INLINE REAL F(per)(REAL t) { /* 1 / (t ln 2), of a finite t, and at most the largest number */
    const REAL largest = (REAL)(sizeof(REAL) == 4 ? 3.4028234e38 : 1.7976931348623157e308);
    const REAL per = (REAL)(1 / LN2) / (t > largest ? largest : t);
    return per < largest ? per : largest;
}

INLINE REAL F(get)(const void *from, int64_t i, int dtype) {
    if (dtype == BFLOAT16) return from_bfloat16(((const uint16_t *)from)[i]);
    if (dtype == FLOAT16) return from_float16(((const uint16_t *)from)[i]);
    return ((const REAL *)from)[i];
}

INLINE void F(put)(void *to, int64_t i, REAL x, int dtype) {
    if (dtype == BFLOAT16) ((uint16_t *)to)[i] = to_bfloat16((float)x);
    else if (dtype == FLOAT16) ((uint16_t *)to)[i] = to_float16((float)x);
    else ((REAL *)to)[i] = x;
}

INLINE void F(read)(const void *from, int64_t at, int64_t count, int dtype, REAL *restrict to) {
    if (dtype == BFLOAT16) SIMD for (int64_t j = 0; j < count; j++) to[j] = F(get)(from, at + j, BFLOAT16);
    else if (dtype == FLOAT16) SIMD for (int64_t j = 0; j < count; j++) to[j] = F(get)(from, at + j, FLOAT16);
    else memcpy(to, (const REAL *)from + at, (size_t)count * sizeof(REAL));
}

INLINE void F(write)(void *to, int64_t at, int64_t count, int dtype, const REAL *restrict from) {
    if (dtype == BFLOAT16) SIMD for (int64_t j = 0; j < count; j++) F(put)(to, at + j, from[j], BFLOAT16);
    else if (dtype == FLOAT16) SIMD for (int64_t j = 0; j < count; j++) F(put)(to, at + j, from[j], FLOAT16);
    else memcpy((REAL *)to + at, from, (size_t)count * sizeof(REAL));
}

/* Steps of a strip: element (k, j) of z is x[k * stride + j], and the gradient to it goes to out, at the same place. */
typedef struct { const REAL *x; REAL *out; int64_t i, steps, count, stride; } F(Block);

/* Copy a block between a tensor and a buffer. */
EACH_CPU static void F(copy)(const Job *job, const Strip *s, const F(Block) *b, REAL *buffer, int store) {
    const int64_t at = s->at + b->i * s->step, across = s->across;
    const int64_t runs = s->step == b->stride ? 1 : b->steps, length = s->step == b->stride ? b->steps * b->count : b->count;
    for (int64_t k = 0; k < runs && across == 1; k++) {
        if (store) F(write)(job->grad_z, at + k * s->step, length, job->dtype, buffer + k * b->stride);
        else F(read)(job->z, at + k * s->step, length, job->dtype, buffer + k * b->stride);
    }
    for (int64_t j = 0; j < b->count && across > 1; j += 8)
        for (int64_t k = 0; k < b->steps; k += 8) {
            const int64_t rows = b->count - j < 8 ? b->count - j : 8, steps = b->steps - k < 8 ? b->steps - k : 8;
            const int whole = sizeof(REAL) == 4 && rows == 8 && steps == 8;
            REAL tile[64], *part = buffer + k * b->stride + j;
            if (store && whole) transpose((const float *)part, b->stride, (float *)tile, 8);
            for (int64_t r = 0; r < rows; r++) {
                const int64_t place = at + (j + r) * across + k;
                if (whole && store) F(write)(job->grad_z, place, 8, job->dtype, tile + r * 8);
                else if (whole) F(read)(job->z, place, 8, job->dtype, tile + r * 8);
                else if (store) for (int64_t i = 0; i < steps; i++) F(put)(job->grad_z, place + i, part[i * b->stride + r], job->dtype);
                else for (int64_t i = 0; i < steps; i++) part[i * b->stride + r] = F(get)(job->z, place + i, job->dtype);
            }
            if (!store && whole) transpose((const float *)tile, 8, (float *)part, b->stride);
        }
    for (int64_t k = 0; k < b->steps && !store; k++)
        for (int64_t j = b->count; j < b->stride; j++) buffer[k * b->stride + j] = 0;
}

/* The first block of a strip (b all 0), or the next; none is left if that has no lanes. Large ones where nothing is copied. */
INLINE void F(next)(const Job *job, const Strip *s, F(Block) *b, REAL *buffer, REAL *result, int loaded) {
    if (b->count && result && b->out == result) F(copy)(job, s, b, result, 1);
    b->i += b->steps;
    b->count = b->i < s->steps ? s->count : b->i == s->steps ? s->tail : 0;
    if (!b->count) return;
    const int in_place = (sizeof(REAL) == 8 || job->dtype == FLOAT32) && s->across == 1 && b->count % LANES == 0;
    const int64_t at = s->at + b->i * s->step, left = b->i < s->steps ? s->steps - b->i : 1;
    b->stride = in_place ? s->step : FULL(b->count);
    const int64_t most = BUFFER / b->stride / STEPS * STEPS; /* whole sums only: how many lanes there are must not regroup them */
    b->steps = in_place || left < most ? left : most;
    b->x = in_place ? (const REAL *)job->z + at : buffer, b->out = in_place ? (REAL *)job->grad_z + at : result;
    if (!in_place && !loaded) F(copy)(job, s, b, buffer, 0);
}

/* body(x, out, steps) for all of a strip. The compiler does better where it knows the number of steps. */
#define EACH_STEP(result, loaded, body)                                                            \
    F(Block) b = {0};                                                                              \
    for (F(next)(job, s, &b, buffer, result, loaded); b.count; F(next)(job, s, &b, buffer, result, loaded)) { \
        int64_t k = 0;                                                                             \
        for (; k + STEPS <= b.steps; k += STEPS) body(b.x + k * b.stride, b.out + k * b.stride, STEPS); \
        for (; k < b.steps; k++) body(b.x + k * b.stride, b.out + k * b.stride, 1);                \
    }

/* Whether all lanes are of one row: their sums are then added up, in the first lane. */
INLINE int F(one_row)(const Strip *s) { return s->rows < s->count; }

static int F(has_nan)(const Job *job, const Strip *s, int64_t j) {
    int found = 0;
    for (int64_t lane = F(one_row)(s) ? 0 : j; lane < (F(one_row)(s) ? s->count : j + 1); lane++)
        for (int64_t i = 0; i < s->steps + (lane < s->tail); i++) {
            const REAL x = F(get)(job->z, s->at + i * s->step + lane * s->across, job->dtype);
            found |= x != x;
        }
    return found;
}

INLINE void F(merge)(const Strip *s, double *x) {
    for (int half = F(one_row)(s) ? LANES / 2 : 0; half; half /= 2)
        for (int j = 0; j < half; j++) x[j] += x[j + half];
}

INLINE void F(maximum_and_sum)(const F(Block) *b, const REAL *restrict x, const int steps, REAL *restrict top, double *restrict sum) {
    SIMD for (int64_t j = 0; j < FULL(b->count); j++) {
        REAL high = -INFINITY, total = 0;
        for (int k = 0; k < steps; k++) {
            REAL y = x[k * b->stride + j];
            high = y > high ? y : high, total += y;
        }
        high = j < b->count ? high : -INFINITY;
        top[j] = high > top[j] ? high : top[j], sum[j] += j < b->count ? total : 0;
    }
}

INLINE void F(sums)(const F(Block) *b, const REAL *restrict x, const int steps, const REAL *restrict c, const REAL *restrict per,
                    const REAL *restrict most, double *restrict powers, double *restrict rests) {
    SIMD for (int64_t j = 0; j < FULL(b->count); j++) {
        REAL power = 0, rest = 0, more;
        for (int k = 0; k < steps; k++) {
            power += F(terms)(F(distance)(x[k * b->stride + j], c[j], most[j]), per[j], &more);
            rest += more;
        }
        powers[j] += j < b->count ? power : 0, rests[j] += j < b->count ? rest : 0;
    }
}

INLINE void F(forward)(const Job *job, const Strip *s) {
    const int64_t lanes = FULL(s->count), all = job->outer * job->inner, n = job->n;
    REAL t[WIDTH], top[WIDTH], c[WIDTH], per[WIDTH], most[WIDTH], buffer[BUFFER], *kept = job->kept;
    double sum[WIDTH], powers[WIDTH], rests[WIDTH];
    for (int64_t j = 0; j < lanes; j++) {
        t[j] = ((const REAL *)job->t)[(s->row + (j < s->rows ? j : 0)) * job->t_step];
        top[j] = -INFINITY, sum[j] = powers[j] = rests[j] = 0;
    }
    {
#define BODY(x, out, steps) F(maximum_and_sum)(&b, x, steps, top, sum)
        EACH_STEP(NULL, 0, BODY)
#undef BODY
    }
    F(merge)(s, sum);
    for (int64_t j = 1; j < s->count && F(one_row)(s); j++) top[0] = top[j] > top[0] ? top[j] : top[0];
    for (int64_t j = s->rows; j < lanes; j++) top[j] = top[0], sum[j] = sum[0];
    SIMD for (int64_t j = 0; j < lanes; j++) {
        const REAL mean = (REAL)(sum[j] / n), gap = top[j] - mean;
        per[j] = F(per)(t[j]), most[j] = BIAS / per[j];
        c[j] = gap >= 0 && gap * per[j] < NEAR ? mean : top[j];
    }
    {
#define BODY(x, out, steps) F(sums)(&b, x, steps, c, per, most, powers, rests)
        EACH_STEP(NULL, !s->tail && s->steps * lanes <= BUFFER, BODY) /* then it is still in the buffer */
#undef BODY
    }
    F(merge)(s, powers), F(merge)(s, rests);
    REAL value[WIDTH], inverse[WIDTH], log_mean[WIDTH];
    SIMD for (int64_t j = 0; j < lanes; j++) {
        const double total = powers[j] + rests[j], L = log_1p((rests[j] + (powers[j] - n)) / n, total / n);
        const REAL x = (REAL)(c[j] + L / (per[j] * LN2));
        value[j] = x > top[j] ? top[j] : x, inverse[j] = (REAL)(1 / total), log_mean[j] = (REAL)L;
    }
    for (int64_t j = 0; j < s->rows; j++) {
        if (top[j] == -INFINITY && !F(has_nan)(job, s, j)) value[j] = top[j], c[j] = inverse[j] = log_mean[j] = 0;
        if (top[j] == INFINITY && !F(has_nan)(job, s, j)) value[j] = top[j], inverse[j] = 1; /* weights 0, and nan at inf */
        if (!(t[j] > 0)) value[j] = inverse[j] = NAN;
    }
    F(write)(job->value, s->row, s->rows, job->dtype, value);
    memcpy(kept + s->row, c, (size_t)s->rows * sizeof(REAL));
    memcpy(kept + all + s->row, inverse, (size_t)s->rows * sizeof(REAL));
    memcpy(kept + 2 * all + s->row, log_mean, (size_t)s->rows * sizeof(REAL));
}

INLINE void F(gradients)(const F(Block) *b, const REAL *restrict x, REAL *restrict out, const int steps, const int wants_t,
                         const REAL *restrict c, const REAL *restrict per, const REAL *restrict most, const REAL *restrict share,
                         const REAL *restrict scale, const REAL *restrict log_mean, double *restrict slope) {
    REAL total[WIDTH];
    for (int64_t j = 0; j < FULL(b->count) * wants_t; j++) total[j] = 0;
    for (int k = 0; k < steps; k++)
        SIMD for (int64_t j = 0; j < FULL(b->count); j++) {
            REAL rest, d = F(distance)(x[k * b->stride + j], c[j], most[j]), e = F(terms)(d, per[j], &rest);
            e += rest;
            out[k * b->stride + j] = e * share[j];
            if (wants_t) total[j] += F(phi)(d * (per[j] * -(REAL)LN2) - log_mean[j], e * scale[j]);
        }
    SIMD for (int64_t j = 0; j < FULL(b->count) * wants_t; j++) slope[j] += j < b->count ? total[j] : 0;
}

/* The gradient to z alone needs no sums: along memory it is done element by element. */
INLINE void F(gradient_along)(const Job *job, int64_t row, int64_t rows) {
    const int64_t all = job->outer, n = job->n;
    for (int64_t j = row; j < row + rows; j++) {
        const REAL c = ((const REAL *)job->kept)[j], per = F(per)(((const REAL *)job->t)[j * job->t_step]), most = BIAS / per;
        const REAL share = F(get)(job->grad, j, job->dtype) * ((const REAL *)job->kept)[all + j];
        for (int64_t i = 0; i < n; i += LANES) {
            REAL x[LANES] = {0}, out[LANES], rest;
            if (n - i < LANES) F(read)(job->z, j * n + i, n - i, job->dtype, x);
            else F(read)(job->z, j * n + i, LANES, job->dtype, x);
            SIMD for (int k = 0; k < LANES; k++) {
                REAL e = F(terms)(F(distance)(x[k], c, most), per, &rest);
                out[k] = (e + rest) * share;
            }
            if (n - i < LANES) F(write)(job->grad_z, j * n + i, n - i, job->dtype, out);
            else F(write)(job->grad_z, j * n + i, LANES, job->dtype, out);
        }
    }
}

INLINE void F(backward)(const Job *job, const Strip *s) {
    const int64_t lanes = FULL(s->count), all = job->outer * job->inner, n = job->n;
    REAL c[WIDTH], per[WIDTH], most[WIDTH], share[WIDTH], scale[WIDTH], log_mean[WIDTH], grad[WIDTH];
    REAL buffer[BUFFER], result[BUFFER];
    const REAL *kept = job->kept;
    double slope[WIDTH];
    F(read)(job->grad, s->row, s->rows, job->dtype, grad);
    for (int64_t j = 0; j < lanes; j++) {
        const int64_t row = s->row + (j < s->rows ? j : 0);
        per[j] = ((const REAL *)job->t)[row * job->t_step], c[j] = kept[row], scale[j] = kept[all + row];
        log_mean[j] = kept[2 * all + row], grad[j] = grad[j < s->rows ? j : 0], slope[j] = 0;
    }
    SIMD for (int64_t j = 0; j < lanes; j++) {
        per[j] = F(per)(per[j]), most[j] = BIAS / per[j];
        share[j] = grad[j] * scale[j], scale[j] *= n;
    }
    if (job->grad_t) {
#define BODY(x, out, steps) F(gradients)(&b, x, out, steps, 1, c, per, most, share, scale, log_mean, slope)
        EACH_STEP(result, 0, BODY)
#undef BODY
    } else {
#define BODY(x, out, steps) F(gradients)(&b, x, out, steps, 0, c, per, most, share, scale, log_mean, slope)
        EACH_STEP(result, 0, BODY)
#undef BODY
    }
    F(merge)(s, slope);
    for (int64_t j = 0; j < s->rows && job->grad_t; j++) /* no gradient comes from a row that has none, or is all -inf */
        ((REAL *)job->grad_t)[s->row + j] = grad[j] == 0 || scale[j] == 0 ? 0 : (REAL)(-grad[j] * slope[j] / n);
}

#undef EACH_STEP
#endif
