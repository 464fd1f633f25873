/* attack_review.h: the words of docs/security-tests.md that are not attacks. */
#ifndef TESTS_SANDBOX_ATTACK_REVIEW_H
#define TESTS_SANDBOX_ATTACK_REVIEW_H

typedef struct review_item {
	const char *trap, *where;
} review_item;

extern const char review_head[];
extern const review_item review_items[]; /* ends with a NULL trap */

#endif
