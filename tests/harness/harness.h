/*
 * harness.h: self-registering C tests that speak TAP.
 *
 *   TEST(name) { CHECK(1 + 1 == 2); }
 *
 * A test program is one .c file linked with harness.c and libcowbox.a. Each test runs in a forked child with a time limit (60 s, or
 * TEST_LIMIT(name, seconds); longer under sanitizers and COWBOX_SOAK), so a crash or hang is one failed test, and whatever it leaves
 * running is killed. Arguments: names (substrings, or =NAME exactly) to run only those; `--seed N` for random tests; `--list`. A
 * failed CHECK prints file, line and expression as a TAP comment and ends the test, also when made in a thread or in a process the
 * test forked.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cowbox/error.h>

typedef struct test_case {
	const char *name;
	void (*run)(void);
	unsigned limit_seconds;
	struct test_case *next;
} test_case;

void test_register(test_case *t);
void test_fail(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void test_skip(const char *reason) __attribute__((noreturn)); /* fails instead when COWBOX_MUST_WORK=1 */
/* The same for a feature by name: what tests/may-lack lists may be missing everywhere. */
void test_lacks(const char *feature, const char *reason) __attribute__((noreturn));
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a TAP comment */
/* A copy of all its bytes, set or not. */
void test_err_copy(cb_error *to, cb_error *from);
/* From --seed, else COWBOX_SEED, else the time; printed once as a TAP comment, and again when the test fails. */
uint64_t test_seed(void);
/* How much longer than CI's dose to run random tests: COWBOX_SOAK (default 1). */
unsigned test_soak(void);
/* Of random rounds: a twentieth of them in CI, where every commit tries others; all of them, so many times over, in a soak. */
unsigned test_dose(unsigned rounds);
/* Many seeds are tried one after the other (tools/seeds): what does not depend on the seed can be left out. */
bool test_only_random(void);
/* What the calling thread has used of the processor: to compare costs, whatever else the machine does meanwhile. */
double test_cpu_ms(void);
/* A fresh folder (mode 0700) below $TMPDIR, removed when the test ends. Lent. */
const char *test_tmpdir(void);

/* xorshift64*: small, seedable, the same everywhere. */
typedef struct test_rng {
	uint64_t state;
} test_rng;
uint64_t test_rand(test_rng *r);
uint64_t test_rand_below(test_rng *r, uint64_t n); /* n > 0 */

#define TEST_LIMIT(id, seconds)                                                \
	static void test_run_##id(void);                                       \
	static test_case test_case_##id = {#id, test_run_##id, seconds, NULL}; \
	__attribute__((constructor)) static void test_register_##id(void)      \
	{                                                                      \
		test_register(&test_case_##id);                                \
	}                                                                      \
	static void test_run_##id(void)
#define TEST(id) TEST_LIMIT(id, 60)

#define CHECK(cond)                                                      \
	do {                                                             \
		if (!(cond)) test_fail(__FILE__, __LINE__, "%s", #cond); \
	} while (0)
#define CHECK_MSG(cond, ...)                                             \
	do {                                                             \
		if (!(cond)) test_fail(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)
/* `err` must be a cb_error in scope that was given to the call, which leaves it alone when it succeeds. */
#define CHECK_OK(call)                                                                                                     \
	do {                                                                                                               \
		cb_error err_before_;                                                                                      \
		test_err_copy(&err_before_, &err);                                                                         \
		cb_code code_ = (call);                                                                                    \
		if (code_ != CB_OK) test_fail(__FILE__, __LINE__, "%s: %s (%s)", #call, cb_code_name(code_), err.message); \
		if (memcmp(&err_before_, &err, sizeof(err)) != 0)                                                          \
			test_fail(__FILE__, __LINE__, "%s: success, but *err says %s (%s)", #call, cb_code_name(err.code), \
			          err.message);                                                                            \
	} while (0)
#define CHECK_CODE(call, expected)                                                                                                \
	do {                                                                                                                      \
		cb_code code_ = (call);                                                                                           \
		if (code_ != (expected))                                                                                          \
			test_fail(__FILE__, __LINE__, "%s: %s, expected %s", #call, cb_code_name(code_), cb_code_name(expected)); \
	} while (0)
#define CHECK_U64(a, b)                                                                                         \
	do {                                                                                                    \
		uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                                                \
		if (a_ != b_) test_fail(__FILE__, __LINE__, "%s = %" PRIu64 ", %s = %" PRIu64, #a, a_, #b, b_); \
	} while (0)
#define CHECK_STR(a, b)                                                                             \
	do {                                                                                        \
		const char *a_ = (a), *b_ = (b);                                                    \
		if (strcmp(a_, b_) != 0) test_fail(__FILE__, __LINE__, "\"%s\" != \"%s\"", a_, b_); \
	} while (0)

#endif
