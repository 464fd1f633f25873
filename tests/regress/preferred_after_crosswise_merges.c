/*
 * preferred_after_crosswise_merges.c: two boxes that merged each other crosswise, so that their common pasts differ. Where these conflict,
 * the base has a file in places that only one of them knew. What was new there was taken for a change of that file in one direction and not
 * in the other: a conflict that nobody had made, a mode that went to another file, a file that both answers lost, a merge that failed.
 */
#include "harness/sides.h"

static void must_link(cb_box *b, const char *path, const char *other)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, path, other, &err));
}

static void must_chmod(cb_box *b, const char *path)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, path, 0600, 0, &err));
}

/* What two boxes, a and b, do before they merge each other as they are then, each with a side preferred, and what they do after that. */
typedef struct scene {
	deed *base, *before[2], *after[2];
	cb_prefer crossing[2];
} scene;

static sides open_scene(const scene *sc)
{
	sides p = sides_open(true, sc->base);
	cb_box *both[2] = {p.ours, p.theirs}, *old[2];
	for (int i = 0; i < 2; i++) sc->before[i](both[i]);
	old[0] = must_fork(p.s, "ours", "ours-then");
	old[1] = must_fork(p.s, "theirs", "theirs-then");
	for (int i = 0; i < 2; i++) must_merge(both[i], old[1 - i], sc->crossing[i]);
	for (int i = 0; i < 2; i++) cb_box_close(old[i]);
	for (int i = 0; i < 2; i++) sc->after[i](both[i]);
	return p;
}

/* winner: 0, 1; -1: nothing is in conflict. */
static void settle(const scene *sc, int winner, const char *text)
{
	for (int into = 0; into < 2; into++) {
		sides p = open_scene(sc);
		cb_box *both[2] = {p.ours, p.theirs};
		cb_prefer prefer = winner < 0 ? CB_PREFER_NONE : winner == into ? CB_PREFER_OURS : CB_PREFER_THEIRS;
		must_merge(both[into], both[1 - into], prefer);
		must_show(both[into], text);
		sides_close(&p);
	}
}

static void two_names(cb_box *b)
{
	must_write(b, "/work/d", "old");
	must_link(b, "/work/d", "/work/e");
}

static void b_is_written(cb_box *b)
{
	must_write(b, "/work/b", "A");
}

static void all_becomes_b(cb_box *b)
{
	rm(b, "/work/e");
	mv(b, "/work/d", "/work/b");
}

static void z_comes(cb_box *b)
{
	must_write(b, "/work/z", "z");
}

static void d_comes(cb_box *b)
{
	must_write(b, "/work/d", "NEW");
}

/* Both have the file elsewhere, and the same. */
TEST(a_new_file_under_a_name_that_both_took_away)
{
	scene sc = {two_names, {b_is_written, all_becomes_b}, {z_comes, d_comes}, {CB_PREFER_THEIRS, CB_PREFER_OURS}};
	settle(&sc, -1, "b=old d=NEW z=z");
	settle(&sc, 0, "b=old d=NEW z=z");
	settle(&sc, 1, "b=old d=NEW z=z");
}

static void one_file(cb_box *b)
{
	must_write(b, "/work/e", "old");
}

static void e_is_linked_as_c(cb_box *b)
{
	must_link(b, "/work/e", "/work/c");
}

static void folder_c(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/c", 0755, 0, &err));
}

static void all_goes_for_a_new_c(cb_box *b)
{
	rm(b, "/work/c");
	rm(b, "/work/e");
	must_write(b, "/work/c", "A");
}

static void c_becomes_b_and_is_made_again(cb_box *b)
{
	mv(b, "/work/c", "/work/b");
	must_write(b, "/work/c", "B");
}

/* Under a name that the file had in one of the pasts only, both sides have new ones. */
TEST(new_files_on_both_sides_and_the_old_on_one)
{
	scene sc = {one_file,
	            {e_is_linked_as_c, folder_c},
	            {all_goes_for_a_new_c, c_becomes_b_and_is_made_again},
	            {CB_PREFER_OURS, CB_PREFER_OURS}};
	settle(&sc, 0, "c=A");
	settle(&sc, 1, "b/ c=B e=old");
}

static void a_file_and_one_in_a_folder(cb_box *b)
{
	must_write(b, "/work/b", "b");
	must_write(b, "/work/d/x", "x");
}

static void b_goes(cb_box *b)
{
	rm(b, "/work/b");
}

static void b_comes_into_d(cb_box *b)
{
	mv(b, "/work/b", "/work/d/b");
}

static void mode_of_x(cb_box *b)
{
	must_chmod(b, "/work/d/x");
}

static void b_and_x_change_names(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/d/b", "/work/d/x", CB_EXCHANGE, &err));
}

/* A file in dispute is no new one that came in the place of another. */
TEST(a_mode_is_meant_for_the_file)
{
	scene sc = {a_file_and_one_in_a_folder,
	            {b_goes, b_comes_into_d},
	            {mode_of_x, b_and_x_change_names},
	            {CB_PREFER_OURS, CB_PREFER_OURS}};
	settle(&sc, 1, "d/ d/b=x(600) d/x=b");
	settle(&sc, 0, "d/ d/x=x(600)");
}

static void nothing(cb_box *b)
{
	(void)b;
}

static void file_d(cb_box *b)
{
	must_write(b, "/work/d", "FILE");
}

static void folder_d(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
}

static void d_becomes_a_folder(cb_box *b)
{
	rm(b, "/work/d");
	folder_d(b);
}

static void file_comes_into_d(cb_box *b)
{
	must_write(b, "/work/d/f", "B");
}

/* One goes or stays as a whole, and does not unite with a new one. */
TEST(a_folder_in_dispute)
{
	scene sc = {nothing, {file_d, folder_d}, {d_becomes_a_folder, file_comes_into_d}, {CB_PREFER_OURS, CB_PREFER_OURS}};
	settle(&sc, 0, "d/");
	settle(&sc, 1, "d/ d/f=B");
}

static void folder_a(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/a", 0755, 0, &err));
}

static void d_becomes_a(cb_box *b)
{
	rm(b, "/work/a");
	mv(b, "/work/d", "/work/a");
}

static void a_becomes_a_file(cb_box *b)
{
	rm(b, "/work/d");
	rm(b, "/work/a");
	must_write(b, "/work/a", "FILE");
}

/* Nor does it stand for another folder whose name it got. */
TEST(a_folder_in_dispute_in_the_place_of_another)
{
	scene sc = {folder_a, {file_d, folder_d}, {d_becomes_a, a_becomes_a_file}, {CB_PREFER_THEIRS, CB_PREFER_THEIRS}};
	settle(&sc, 0, "a/");
	settle(&sc, 1, "a=FILE");
}

static void two_files(cb_box *b)
{
	must_write(b, "/work/a", "a");
	must_write(b, "/work/d", "d");
}

static void a_is_linked_as_c_and_d_is_saved(cb_box *b)
{
	must_link(b, "/work/a", "/work/c");
	must_renew(b, "/work/d", "SAVED");
}

static void d_becomes_c(cb_box *b)
{
	mv(b, "/work/d", "/work/c");
}

/* Each side has another of two files for one, and what is new where one of them was in one past stands for neither. */
TEST(two_files_for_one_and_a_new_one)
{
	scene sc = {
		two_files, {a_is_linked_as_c_and_d_is_saved, d_becomes_c}, {folder_d, d_comes}, {CB_PREFER_THEIRS, CB_PREFER_OURS}};
	settle(&sc, 0, "a=a c=SAVED d/");
	settle(&sc, 1, "a=a c=SAVED d=NEW");
}

static void c_becomes_a_and_is_made_again(cb_box *b)
{
	mv(b, "/work/c", "/work/a");
	must_write(b, "/work/c", "NEW");
}

static void files_a_and_c(cb_box *b)
{
	must_write(b, "/work/c", "c");
	must_write(b, "/work/a", "a");
}

static void a_becomes_a_folder(cb_box *b)
{
	cb_error err = {0};
	rm(b, "/work/a");
	CHECK_OK(cb_mkdir(b, "/work/a", 0755, 0, &err));
}

static void file_comes_into_a(cb_box *b)
{
	must_write(b, "/work/a/f", "f");
}

/* Where the loser has the file in dispute, the winner has another: that stays, as the file goes where the winner has it. */
TEST(a_file_in_dispute_uncovers_another)
{
	scene sc = {files_a_and_c,
	            {c_becomes_a_and_is_made_again, a_becomes_a_folder},
	            {z_comes, file_comes_into_a},
	            {CB_PREFER_OURS, CB_PREFER_OURS}};
	settle(&sc, 0, "a=c c=NEW z=z");
	settle(&sc, 1, "a/ a/f=f c=c z=z");
}

static void a_file_and_folders(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/a", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/e", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/e/e", 0755, 0, &err));
	must_write(b, "/work/a/a", "old");
}

static void folder_comes_and_the_file_is_c(cb_box *b)
{
	cb_error err = {0};
	mv(b, "/work/a/a", "/work/e/e/c");
	must_link(b, "/work/e/e/c", "/work/c");
	CHECK_OK(cb_mkdir(b, "/work/a/e", 0755, 0, &err));
}

static void folder_comes_and_the_file_is_a(cb_box *b)
{
	cb_error err = {0};
	mv(b, "/work/a/a", "/work/e/e/a");
	CHECK_OK(cb_mkdir(b, "/work/a/e", 0755, 0, &err));
	must_link(b, "/work/e/e/a", "/work/a/d");
}

static void names_change_and_ee_goes(cb_box *b)
{
	mv(b, "/work/a/d", "/work/b");
	must_link(b, "/work/e/e/c", "/work/e/b");
	rm(b, "/work/e/e");
}

static void folder_moves_into_ee(cb_box *b)
{
	cb_error err = {0};
	must_chmod(b, "/work/c");
	must_link(b, "/work/e/e/c", "/work/a/e/c");
	must_link(b, "/work/e/e/c", "/work/e/e/d");
	CHECK_OK(cb_rename(b, "/work/e/e/a", "/work/a/e", CB_EXCHANGE, &err));
	must_link(b, "/work/e/e/c", "/work/d");
}

/* The folder a/e, which both made, has two numbers. One side changes it for a file in a folder that the other removes. */
TEST(a_folder_of_two_numbers_in_one_that_is_gone)
{
	scene sc = {a_file_and_folders,
	            {folder_comes_and_the_file_is_c, folder_comes_and_the_file_is_a},
	            {names_change_and_ee_goes, folder_moves_into_ee},
	            {CB_PREFER_OURS, CB_PREFER_OURS}};
	settle(&sc, 0, "a/ a/e/ b=old(600) c=old(600) e/ e/b=old(600)");
	settle(&sc, 1,
	       "a/ a/e=old(600) b=old(600) c=old(600) d=old(600) e/ e/b=old(600) e/e/ e/e/a/ e/e/a/c=old(600) e/e/d=old(600)");
}

static void a_alone(cb_box *b)
{
	must_write(b, "/work/a", "o");
}

static void a_is_closed_and_d_comes(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, "/work/a", 0607, 0, &err));
	must_write(b, "/work/d", "a");
}

static void a_becomes_e(cb_box *b)
{
	mv(b, "/work/a", "/work/e");
	must_chmod(b, "/work/e");
	must_write(b, "/work/e", "b");
}

static void d_becomes_e(cb_box *b)
{
	rm(b, "/work/e");
	mv(b, "/work/d", "/work/e");
}

static void d_is_saved(cb_box *b)
{
	must_write(b, "/work/a", "SAVED");
	mv(b, "/work/a", "/work/d");
}

/* Where one side has a file in dispute the other has one that the first has saved: that is no rival, and what was saved is not lost. */
TEST(a_saved_file_is_no_rival)
{
	scene sc = {a_alone, {a_is_closed_and_d_comes, a_becomes_e}, {d_becomes_e, d_is_saved}, {CB_PREFER_OURS, CB_PREFER_OURS}};
	settle(&sc, 0, "e=SAVED");
	settle(&sc, 1, "d=SAVED e=b(600)");
}

/* ---- a file that came to the name of one in dispute ---- */

static void folder_and_file(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/c", 0755, 0, &err));
	must_write(b, "/work/b", "base");
}

static void b_is_saved(cb_box *b)
{
	must_renew(b, "/work/b", "zero");
}

static void b_is_saved_and_c_a_file(cb_box *b)
{
	must_renew(b, "/work/b", "one");
	rm(b, "/work/c");
	must_write(b, "/work/c", "c");
}

static void c_is_saved(cb_box *b)
{
	must_renew(b, "/work/c", "saved");
}

static void b_and_c_are_exchanged(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/b", "/work/c", CB_EXCHANGE, &err));
}

TEST(a_file_at_the_name_of_one_in_dispute_is_itself)
{
	const scene sc = {folder_and_file,
	                  {b_is_saved, b_is_saved_and_c_a_file},
	                  {c_is_saved, b_and_c_are_exchanged},
	                  {CB_PREFER_THEIRS, CB_PREFER_OURS}};
	settle(&sc, 0, "b=one c=saved");
}
