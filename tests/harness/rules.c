/* rules.c: see rules.h. */
#include "harness/rules.h"

static bool is_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	if (n == 1) return true; /* "/" */
	return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static bool applies(const rule *r, const gate_request *q)
{
	if (q->path) return r->path[0] == '/' && is_within(q->path, r->path);
	return r->path[0] != '/' && span_starts(q->name, span_str(r->path));
}

static bool is_free(const rules *r, const char *who, uint64_t box)
{
	return strcmp(who, "owner") == 0 || (r->box && box && r->box != box);
}

static gate_answer ask(void *context, const gate_request *q)
{
	rules *r = context;
	gate_answer answer = GATE_PASS;
	atomic_fetch_add(&r->asked, 1);
	if (is_free(r, q->who, q->box)) return GATE_PASS;
	for (size_t i = 0; i < r->count; i++) {
		if (!applies(&r->all[i], q)) continue;
		if (r->all[i].kind == RULE_HIDE) return GATE_HIDDEN;
		if (r->all[i].kind == RULE_UNREADABLE || q->access != GATE_READ) answer = GATE_DENIED;
	}
	return answer;
}

static gate_below below(void *context, const char *who, uint64_t box, const char *path)
{
	rules *r = context;
	gate_below found = GATE_BELOW_NONE;
	size_t n = strcmp(path, "/") == 0 ? 0 : strlen(path);
	if (is_free(r, who, box)) return GATE_BELOW_NONE;
	for (size_t i = 0; i < r->count; i++) {
		const char *p = r->all[i].path;
		if (p[0] != '/') {
			if (n == 0 && found == GATE_BELOW_NONE) found = GATE_BELOW_DEEPER; /* keys count with the root */
			continue;
		}
		if (strncmp(p, path, n) != 0 || p[n] != '/' || p[n + 1] == 0) continue;
		if (!strchr(p + n + 1, '/')) return GATE_BELOW_INSIDE;
		found = GATE_BELOW_DEEPER;
	}
	return found;
}

static cb_code forked(void *context, uint64_t from, uint64_t to, cb_error *err)
{
	const rules *r = context;
	(void)to;
	if (r->box && r->box == from && !r->follow_forks) return cb_err_set(err, CB_DENIED, "the rules do not follow");
	return CB_OK;
}

static bool allows(void *context, const char *who, uint64_t box, gate_deed deed)
{
	const rules *r = context;
	(void)deed;
	return !r->keep_boxes || is_free(r, who, box);
}

void rules_init(rules *r)
{
	memset(r, 0, sizeof(*r));
	r->g.ask = ask;
	r->g.below = below;
	r->g.forked = forked;
	r->g.allows = allows;
	r->g.context = r;
}

void rules_add(rules *r, rule_kind kind, const char *path)
{
	r->all[r->count++] = (rule){kind, path};
	atomic_fetch_add(&r->g.version, 1);
}

void rules_clear(rules *r)
{
	r->count = 0;
	atomic_fetch_add(&r->g.version, 1);
}

static bool has_rule(const rules *r, const char *path, bool hide)
{
	for (size_t i = 0; i < r->count; i++) {
		if ((r->all[i].kind == RULE_HIDE) != hide) continue;
		bool of_files = r->all[i].path[0] == '/', is_file = path[0] == '/';
		if (of_files != is_file) continue;
		if (of_files ? is_within(path, r->all[i].path) : strncmp(path, r->all[i].path, strlen(r->all[i].path)) == 0)
			return true;
	}
	return false;
}

bool rules_hide(const rules *r, const char *path)
{
	return has_rule(r, path, true);
}

bool rules_keep(const rules *r, const char *path)
{
	return has_rule(r, path, false);
}

void rules_set(rules *r, cb_store *s)
{
	s->gate = &r->g;
}
