/* A conflict that is settled for one side gives that side's picture, merged into it or into the other, and loses nothing else. */
#include "harness/sides.h"

static void must_mkdir(cb_box *b, const char *path)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, path, 0755, CB_PARENTS, &err));
}

/* What the loser and the winner do to the same, settled for the winner wherever it is merged, or committed. */
static void settle_each(deed *base, deed *loser, deed *winner, const char *merged, const char *committed)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		sides p = sides_open(true, base);
		cb_box *other = way < 2 ? p.theirs : must_begin(p.ours);
		cb_prefer prefer = way % 2 ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		(way % 2 ? loser : winner)(p.ours);
		(way % 2 ? winner : loser)(other);
		if (way < 2) must_merge(p.ours, other, prefer);
		else CHECK_OK(cb_txn_commit(other, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
		must_show(p.ours, way < 2 ? merged : committed);
		if (way >= 2) cb_box_close(other);
		sides_close(&p);
	}
}

static void settle(deed *base, deed *loser, deed *winner, const char *text)
{
	settle_each(base, loser, winner, text, text);
}

static void folder_with_a_file(cb_box *b)
{
	must_write(b, "/work/d/old", "old");
}

static void folder_becomes_a_file(cb_box *b)
{
	rm(b, "/work/d");
	must_write(b, "/work/d", "FILE");
}

static void file_comes_into_it(cb_box *b)
{
	must_write(b, "/work/d/new", "NEW");
}

static void file_in_it_changes(cb_box *b)
{
	must_write(b, "/work/d/old", "CHANGED");
}

TEST(folder_against_a_file)
{
	settle(folder_with_a_file, folder_becomes_a_file, file_comes_into_it, "d/ d/new=NEW");
	settle(folder_with_a_file, file_comes_into_it, folder_becomes_a_file, "d=FILE");
	settle(folder_with_a_file, folder_becomes_a_file, file_in_it_changes, "d/ d/old=CHANGED");
	settle(folder_with_a_file, file_in_it_changes, folder_becomes_a_file, "d=FILE");
}

static void two_files(cb_box *b)
{
	must_write(b, "/work/a", "a");
	must_write(b, "/work/e", "e");
}

static void a_becomes_c(cb_box *b)
{
	mv(b, "/work/a", "/work/c");
}

static void e_becomes_c(cb_box *b)
{
	mv(b, "/work/e", "/work/c");
}

static void c_is_written(cb_box *b)
{
	must_write(b, "/work/c", "C");
}

static void c_is_a_folder(cb_box *b)
{
	must_write(b, "/work/c/x", "x");
}

TEST(one_name_for_two)
{
	settle(two_files, a_becomes_c, e_becomes_c, "a=a c=e");
	settle(two_files, a_becomes_c, c_is_written, "a=a c=C e=e");
	settle(two_files, c_is_written, a_becomes_c, "c=a e=e");
	settle(two_files, a_becomes_c, c_is_a_folder, "a=a c/ c/x=x e=e");
	settle(two_files, c_is_a_folder, a_becomes_c, "c=a e=e");
}

static void a_becomes_e(cb_box *b)
{
	mv(b, "/work/a", "/work/e");
}

static void e_changes(cb_box *b)
{
	must_write(b, "/work/e", "CHANGED");
}

static void a_goes(cb_box *b)
{
	rm(b, "/work/a");
}

TEST(renamed_over_another)
{
	settle(two_files, a_becomes_e, e_changes, "a=a e=CHANGED");
	settle(two_files, a_becomes_e, a_goes, "e=e"); /* the rename is taken back, so also what it covered */
	settle(two_files, a_goes, a_becomes_e, "e=a");
}

static void folder_of_two(cb_box *b)
{
	must_write(b, "/work/f/1", "1");
	must_write(b, "/work/f/2", "2");
}

static void folder_becomes_c(cb_box *b)
{
	mv(b, "/work/f", "/work/c");
	must_write(b, "/work/c/4", "4");
}

static void c_is_written_and_folder_changed(cb_box *b)
{
	must_write(b, "/work/c", "C");
	must_write(b, "/work/f/2", "CHANGED");
	must_write(b, "/work/f/3", "3");
}

static void c_is_made(cb_box *b)
{
	must_mkdir(b, "/work/c");
}

TEST(renamed_folder)
{
	settle(folder_of_two, folder_becomes_c, c_is_written, "c=C f/ f/1=1 f/2=2 f/4=4");
	settle(folder_of_two, folder_becomes_c, c_is_written_and_folder_changed, "c=C f/ f/1=1 f/2=CHANGED f/3=3 f/4=4");
	settle(folder_of_two, c_is_written_and_folder_changed, folder_becomes_c, "c/ c/1=1 c/2=CHANGED c/3=3 c/4=4");
	settle(folder_of_two, folder_becomes_c, c_is_made, "c/ f/ f/1=1 f/2=2 f/4=4");
	settle(folder_of_two, c_is_made, folder_becomes_c, "c/ c/1=1 c/2=2 c/4=4");
}

static void two_names(cb_box *b)
{
	cb_error err = {0};
	must_write(b, "/work/f", "old");
	CHECK_OK(cb_link(b, "/work/f", "/work/b", &err));
}

static void one_is_saved_by_rename(cb_box *b)
{
	must_write(b, "/work/t", "NEW");
	mv(b, "/work/t", "/work/f");
}

static void the_other_goes(cb_box *b)
{
	rm(b, "/work/b");
}

TEST(each_took_away_another_name)
{
	settle(two_names, one_is_saved_by_rename, the_other_goes, "f=old");
	settle(two_names, the_other_goes, one_is_saved_by_rename, "b=old f=NEW");
}

static void two_names_and_a_folder(cb_box *b)
{
	two_names(b);
	must_mkdir(b, "/work/d");
}

static void one_moves_into_the_folder(cb_box *b)
{
	mv(b, "/work/b", "/work/d/b");
}

static void the_folder_goes(cb_box *b)
{
	rm(b, "/work/d");
}

TEST(half_a_rename_is_none)
{
	settle(two_names_and_a_folder, one_moves_into_the_folder, the_folder_goes, "b=old f=old");
	settle(two_names_and_a_folder, the_folder_goes, one_moves_into_the_folder, "d/ d/b=old f=old");
}

static void f_is_written_and_b_saved(cb_box *b)
{
	must_write(b, "/work/f", "WRITTEN");
	must_renew(b, "/work/b", "OTHER");
}

static void f_goes(cb_box *b)
{
	rm(b, "/work/f");
}

static void f_alone_is_saved(cb_box *b)
{
	must_renew(b, "/work/f", "SAVED");
}

static void both_are_saved(cb_box *b)
{
	must_renew(b, "/work/b", "B");
	must_renew(b, "/work/f", "F");
}

static void b_alone_goes(cb_box *b)
{
	rm(b, "/work/b");
}

/* A new file for each of its names: the one that the other side left is compared where it is. */
TEST(each_name_is_compared_where_it_is)
{
	settle(two_names, both_are_saved, b_alone_goes, "f=F");
	settle(two_names, b_alone_goes, both_are_saved, "b=B f=F");
}

/* Each side has a new file in the place of the name that the other left it: what was written to the file is meant for the one name. */
TEST(each_saved_another_name)
{
	settle(two_names, f_is_written_and_b_saved, f_alone_is_saved, "b=old f=SAVED");
	settle(two_names, f_alone_is_saved, f_is_written_and_b_saved, "b=OTHER f=WRITTEN");
	settle(two_names, f_is_written_and_b_saved, f_goes, "b=old");
}

static void files_x_and_y(cb_box *b)
{
	must_write(b, "/work/x", "x");
	must_write(b, "/work/y", "y");
}

static void y_is_linked_as_g_and_becomes_x(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, "/work/y", "/work/g", &err));
	mv(b, "/work/y", "/work/x");
}

static void y_is_linked_as_g_and_becomes_x_which_is_put_aside(cb_box *b)
{
	mv(b, "/work/x", "/work/z");
	y_is_linked_as_g_and_becomes_x(b);
}

static void g_is_written(cb_box *b)
{
	must_write(b, "/work/g", "G");
}

/* The rename is taken back for the sake of another name: what it had covered, or pushed aside, is there again. */
TEST(a_rename_that_is_none_covers_nothing)
{
	settle(files_x_and_y, y_is_linked_as_g_and_becomes_x, g_is_written, "g=G x=x y=y");
	settle(files_x_and_y, g_is_written, y_is_linked_as_g_and_becomes_x, "g=y x=y");
	settle(files_x_and_y, y_is_linked_as_g_and_becomes_x_which_is_put_aside, g_is_written, "g=G x=x y=y");
}

static void file_and_folder(cb_box *b)
{
	must_write(b, "/work/c", "c");
	must_mkdir(b, "/work/d");
}

static void file_gets_a_name_in_it(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, "/work/c", "/work/d/c", &err));
}

static void file_takes_its_place(cb_box *b)
{
	rm(b, "/work/d");
	mv(b, "/work/c", "/work/d");
	must_write(b, "/work/c", "new");
}

TEST(a_name_in_a_folder_that_the_file_replaces)
{
	settle(file_and_folder, file_gets_a_name_in_it, file_takes_its_place, "c=new d=c");
}

static void folder_b(cb_box *b)
{
	must_mkdir(b, "/work/b");
}

static void b_becomes_e_and_is_made_again(cb_box *b)
{
	mv(b, "/work/b", "/work/e");
	must_mkdir(b, "/work/b");
}

static void e_is_made(cb_box *b)
{
	must_mkdir(b, "/work/e/d");
}

/* Which of two inode numbers is greater is a matter of luck. */
TEST(whatever_the_numbers)
{
	for (int i = 0; i < 20; i++) settle(folder_b, b_becomes_e_and_is_made_again, e_is_made, "b/ e/ e/d/");
}

static void file_and_full_folder(cb_box *b)
{
	must_write(b, "/work/a", "a");
	must_write(b, "/work/c/x", "x");
}

static void file_takes_the_folders_place_and_is_made_again(cb_box *b)
{
	mv(b, "/work/c", "/work/b");
	mv(b, "/work/a", "/work/c");
	must_write(b, "/work/a", "new");
}

static void file_goes_into_the_folder(cb_box *b)
{
	mv(b, "/work/a", "/work/c/c");
}

/* Where the file goes is settled by one pass; what becomes of its old name was decided in that, and forgotten by the next. */
TEST(a_new_file_under_the_old_name)
{
	settle(file_and_full_folder, file_takes_the_folders_place_and_is_made_again, file_goes_into_the_folder, "c/ c/c=a c/x=x");
	settle(file_and_full_folder, file_goes_into_the_folder, file_takes_the_folders_place_and_is_made_again,
	       "a=new b/ b/x=x c=a");
}

static void link_and_folder(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_symlink(b, "x", "/work/b", &err));
	must_mkdir(b, "/work/d");
}

static void folder_for_the_link_becomes_a_file(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/d", "/work/b", CB_EXCHANGE, &err));
	rm(b, "/work/b");
	must_write(b, "/work/b", "file");
}

static void link_goes(cb_box *b)
{
	rm(b, "/work/b");
}

/* What is where a link was is new, whichever side is merged into the other. */
TEST(a_new_file_where_a_link_was)
{
	settle(link_and_folder, folder_for_the_link_becomes_a_file, link_goes, "b=file d/");
}

static void one_file_b(cb_box *b)
{
	must_write(b, "/work/b", "base");
}

static void b_is_renewed_and_linked(cb_box *b)
{
	cb_error err = {0};
	must_renew(b, "/work/b", "renewed");
	CHECK_OK(cb_link(b, "/work/b", "/work/a", &err));
}

static void b_is_written_beside_a_folder(cb_box *b)
{
	must_mkdir(b, "/work/a");
	must_write(b, "/work/b", "written");
}

/* A file in conflict is called by the name that both have, not by its first. */
TEST(a_conflict_has_the_name_that_both_know)
{
	sides p = sides_open(true, one_file_b);
	b_is_renewed_and_linked(p.ours);
	b_is_written_beside_a_folder(p.theirs);
	must_conflict(p.ours, p.theirs, "/work/b (changed on both sides)");
	sides_close(&p);
}

static void one_file_two_names(cb_box *b)
{
	cb_error err = {0};
	must_write(b, "/work/b", "base");
	CHECK_OK(cb_link(b, "/work/b", "/work/c", &err));
}

static void b_goes_and_c_is_renewed(cb_box *b)
{
	rm(b, "/work/b");
	must_renew(b, "/work/c", "renewed");
}

static void c_is_renewed_and_becomes_b(cb_box *b)
{
	must_renew(b, "/work/c", "other");
	mv(b, "/work/c", "/work/b");
}

TEST(new_files_under_two_names_of_one)
{
	settle(one_file_two_names, c_is_renewed_and_becomes_b, b_goes_and_c_is_renewed, "c=renewed");
	settle(one_file_two_names, b_goes_and_c_is_renewed, c_is_renewed_and_becomes_b, "b=other");
}

static void one_file_c(cb_box *b)
{
	must_write(b, "/work/c", "base");
}

static void c_is_renewed_and_linked_as_b(cb_box *b)
{
	cb_error err = {0};
	must_renew(b, "/work/c", "renewed");
	CHECK_OK(cb_link(b, "/work/c", "/work/b", &err));
}

static void c_becomes_b(cb_box *b)
{
	mv(b, "/work/c", "/work/b");
}

/* A file that one side saved by rename is one with the other's under a new name that both gave it, as if it had been written in place. In a
 * commit the name is in conflict, and half a rename is none. */
TEST(a_saved_file_under_a_name_that_both_gave_it)
{
	settle_each(one_file_c, c_becomes_b, c_is_renewed_and_linked_as_b, "b=renewed", "b=renewed c=renewed");
	settle(one_file_c, c_is_renewed_and_linked_as_b, c_becomes_b, "b=renewed");
	sides p = sides_open(true, one_file_c);
	c_is_renewed_and_linked_as_b(p.ours);
	c_becomes_b(p.theirs);
	must_merge(p.ours, p.theirs, CB_PREFER_NONE);
	sides_close(&p);
}

static void two_names_and_another(cb_box *b)
{
	two_names(b);
	must_write(b, "/work/m", "m");
}

static void f_is_saved(cb_box *b)
{
	must_renew(b, "/work/f", "SAVED");
}

static void f_is_saved_and_b_changed(cb_box *b)
{
	f_is_saved(b);
	must_write(b, "/work/b", "CHANGED");
}

static void f_is_saved_and_m_becomes_d(cb_box *b)
{
	f_is_saved(b);
	mv(b, "/work/m", "/work/d");
}

static void f_is_saved_and_b_a_folder(cb_box *b)
{
	must_renew(b, "/work/f", "OTHER");
	rm(b, "/work/b");
	must_write(b, "/work/b/x", "x");
}

static void f_is_saved_and_b_a_link(cb_box *b)
{
	cb_error err = {0};
	must_renew(b, "/work/f", "OTHER");
	rm(b, "/work/b");
	CHECK_OK(cb_symlink(b, "m", "/work/b", &err));
}

static void f_is_saved_and_m_becomes_b(cb_box *b)
{
	must_renew(b, "/work/f", "OTHER");
	mv(b, "/work/m", "/work/b");
}

static void must_conflict_in_f_only(deed *ours, deed *theirs)
{
	sides p = sides_open(true, two_names_and_another);
	ours(p.ours);
	theirs(p.theirs);
	must_conflict(p.ours, p.theirs, "1 conflict: /work/f ");
	sides_close(&p);
}

/* Both save a file under one of its names. Of the other, which one side left as it was, it does not matter by what the other side replaced
 * it. */
TEST(something_else_under_another_name_of_a_saved_file)
{
	deed *const others[] = {f_is_saved_and_b_a_folder, f_is_saved_and_b_a_link, f_is_saved_and_m_becomes_b};
	const char *const texts[] = {"b/ b/x=x f=SAVED m=m", "b=m f=SAVED m=m", "b=m f=SAVED"};
	const char *const their_texts[] = {"b/ b/x=x f=OTHER m=m", "b=m f=OTHER m=m", "b=m f=OTHER"};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		must_conflict_in_f_only(f_is_saved, others[i]);
		must_conflict_in_f_only(others[i], f_is_saved);
		settle(two_names_and_another, others[i], f_is_saved, texts[i]);
		settle(two_names_and_another, f_is_saved, others[i], their_texts[i]);
	}
	settle(two_names_and_another, f_is_saved_and_b_a_folder, f_is_saved_and_b_changed, "b=CHANGED f=SAVED m=m");
	settle(two_names_and_another, f_is_saved_and_b_changed, f_is_saved_and_b_a_folder, "b/ b/x=x f=OTHER m=m");
}

/* What was moved there goes back, and so the other name is as it was. */
TEST(another_name_of_a_saved_file_is_uncovered)
{
	settle(two_names_and_another, f_is_saved_and_m_becomes_b, f_is_saved_and_m_becomes_d, "b=old d=m f=SAVED");
	settle(two_names_and_another, f_is_saved_and_m_becomes_d, f_is_saved_and_m_becomes_b, "b=m f=OTHER");
}

static void one_file_a(cb_box *b)
{
	must_write(b, "/work/a", "base");
}

static void a_becomes_b_and_is_made_again_with_c(cb_box *b)
{
	cb_error err = {0};
	mv(b, "/work/a", "/work/b");
	must_write(b, "/work/a", "NEW");
	CHECK_OK(cb_link(b, "/work/a", "/work/c", &err));
}

static void a_changes_beside_a_folder_b(cb_box *b)
{
	must_write(b, "/work/a", "CHANGED");
	must_mkdir(b, "/work/b");
}

/* The new file has no longer the place of the old one, which is back there: what was done to that is not meant for it. */
TEST(a_new_file_that_gave_way_under_one_of_its_names)
{
	settle(one_file_a, a_becomes_b_and_is_made_again_with_c, a_changes_beside_a_folder_b, "a=CHANGED b/ c=NEW");
	settle(one_file_a, a_changes_beside_a_folder_b, a_becomes_b_and_is_made_again_with_c, "a=NEW b=CHANGED c=NEW");
}

static void files_a_and_d(cb_box *b)
{
	must_write(b, "/work/d", "d");
	must_write(b, "/work/a", "a");
}

static void both_are_written(cb_box *b)
{
	must_write(b, "/work/a", "WRITTEN");
	must_write(b, "/work/d", "DIFFERENT");
}

static void a_becomes_b_and_d_is_saved_with_a(cb_box *b)
{
	cb_error err = {0};
	mv(b, "/work/a", "/work/b");
	must_renew(b, "/work/d", "SAVED");
	CHECK_OK(cb_link(b, "/work/d", "/work/a", &err));
}

/* The new file stands for one that was saved, and not for another whose old name it has besides. */
TEST(a_saved_file_under_the_old_name_of_another)
{
	settle(files_a_and_d, a_becomes_b_and_d_is_saved_with_a, both_are_written, "a=DIFFERENT b=WRITTEN d=DIFFERENT");
	settle(files_a_and_d, both_are_written, a_becomes_b_and_d_is_saved_with_a, "a=SAVED b=WRITTEN d=SAVED");
}

static void c_is_linked_as_d_and_written(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, "/work/c", "/work/d", &err));
	must_write(b, "/work/d", "WRITTEN");
}

static void c_is_renewed_and_linked_as_d(cb_box *b)
{
	cb_error err = {0};
	must_renew(b, "/work/c", "RENEWED");
	CHECK_OK(cb_link(b, "/work/c", "/work/d", &err));
}

/* Two names of one file on both sides are so in the result. */
TEST(a_hard_link_stays_one)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		sides p = sides_open(true, one_file_c);
		cb_stat_info st = CB_INIT(cb_stat_info);
		bool first = way % 2;
		(first ? c_is_linked_as_d_and_written : c_is_renewed_and_linked_as_d)(p.ours);
		(first ? c_is_renewed_and_linked_as_d : c_is_linked_as_d_and_written)(p.theirs);
		must_merge(p.ours, p.theirs, way < 2 ? CB_PREFER_OURS : CB_PREFER_THEIRS);
		must_show(p.ours, first == (way < 2) ? "c=WRITTEN d=WRITTEN" : "c=RENEWED d=RENEWED");
		CHECK_OK(cb_stat(p.ours, "/work/d", 0, &st, &err));
		CHECK_U64(st.links, 2);
		sides_close(&p);
	}
}

static void folder_of_three(cb_box *b)
{
	must_write(b, "/work/d/f", "f");
	must_write(b, "/work/d/g", "g");
	must_write(b, "/work/d/s/h", "h");
}

static void d_goes(cb_box *b)
{
	rm(b, "/work/d");
}

static void d_becomes_e(cb_box *b)
{
	mv(b, "/work/d", "/work/e");
}

static void d_becomes_e_and_f_goes(cb_box *b)
{
	d_becomes_e(b);
	rm(b, "/work/e/f");
}

static void d_is_closed(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, "/work/d", 0700, 0, &err));
}

/* A folder that stays, since the side that changed it is preferred, came back empty: what was in it had been removed with it. */
TEST(a_folder_that_stays_keeps_what_is_in_it)
{
	settle(folder_of_three, d_goes, d_becomes_e, "e/ e/f=f e/g=g e/s/ e/s/h=h");
	settle(folder_of_three, d_goes, d_becomes_e_and_f_goes, "e/ e/g=g e/s/ e/s/h=h");
	settle(folder_of_three, d_goes, d_is_closed, "d/ d/f=f d/g=g d/s/ d/s/h=h");
	settle(folder_of_three, d_becomes_e, d_goes, "");
}

static void a_file_in_and_beside_a_folder(cb_box *b)
{
	cb_error err = {0};
	must_write(b, "/work/d/f", "f");
	CHECK_OK(cb_link(b, "/work/d/f", "/work/h", &err));
}

static void h_is_renewed_and_d_goes(cb_box *b)
{
	must_renew(b, "/work/h", "H");
	rm(b, "/work/d");
}

static void s_is_taken_out_and_h_renewed(cb_box *b)
{
	mv(b, "/work/d/s", "/work/s");
	must_renew(b, "/work/s/h", "H");
	rm(b, "/work/d");
}

/* What was in the folder stays with it; what the other side put in its place elsewhere is no matter of the folder. */
TEST(a_folder_that_stays_leaves_alone_what_is_elsewhere)
{
	settle(a_file_in_and_beside_a_folder, h_is_renewed_and_d_goes, d_becomes_e, "e/ e/f=f h=H");
	settle(a_file_in_and_beside_a_folder, d_becomes_e, h_is_renewed_and_d_goes, "h=H");
	settle(folder_of_three, s_is_taken_out_and_h_renewed, d_becomes_e, "e/ e/f=f e/g=g s/ s/h=H");
	settle(folder_of_three, d_becomes_e, s_is_taken_out_and_h_renewed, "s/ s/h=H");
}

static void two_ways_of_folders(cb_box *b)
{
	must_write(b, "/work/d1/s/a", "a");
	must_write(b, "/work/d2/c", "c");
}

static void first_goes_below_the_second(cb_box *b)
{
	mv(b, "/work/d1/s", "/work/d2/a");
	mv(b, "/work/d1", "/work/d2/g");
}

static void second_goes_below_the_first(cb_box *b)
{
	mv(b, "/work/d2", "/work/d1/s/n");
}

/* One of the loser's moves makes a cycle only with the other. */
TEST(folders_moved_into_each_other)
{
	settle(two_ways_of_folders, first_goes_below_the_second, second_goes_below_the_first,
	       "d1/ d1/s/ d1/s/a=a d1/s/n/ d1/s/n/c=c");
	settle(two_ways_of_folders, second_goes_below_the_first, first_goes_below_the_second, "d2/ d2/a/ d2/a/a=a d2/c=c d2/g/");
}

static void four_folders(cb_box *b)
{
	must_write(b, "/work/1/s/t/a", "1");
	must_write(b, "/work/2/s/b", "2");
	must_write(b, "/work/3/s/c", "3");
	must_write(b, "/work/4/d", "4");
}

static void each_into_the_next(cb_box *b)
{
	mv(b, "/work/1", "/work/2/s/n");
	mv(b, "/work/2", "/work/3/s/n");
	mv(b, "/work/3", "/work/4/n");
}

static void last_into_the_first(cb_box *b)
{
	mv(b, "/work/1/s/t", "/work/4/t");
	mv(b, "/work/1/s", "/work/4/s");
	mv(b, "/work/4", "/work/1/n");
}

TEST(a_chain_of_folders_moved_into_each_other)
{
	settle(four_folders, each_into_the_next, last_into_the_first,
	       "1/ 1/n/ 1/n/d=4 1/n/s/ 1/n/t/ 1/n/t/a=1 2/ 2/s/ 2/s/b=2 3/ 3/s/ 3/s/c=3");
	settle(four_folders, last_into_the_first, each_into_the_next,
	       "4/ 4/d=4 4/n/ 4/n/s/ 4/n/s/c=3 4/n/s/n/ 4/n/s/n/s/ 4/n/s/n/s/b=2 4/n/s/n/s/n/ 4/s/ 4/t/ 4/t/a=1");
}

static void three_folders(cb_box *b)
{
	must_write(b, "/work/a/1", "1");
	must_write(b, "/work/b/s/2", "2");
	must_write(b, "/work/c/3", "3");
}

static void c_into_a_into_b(cb_box *b)
{
	mv(b, "/work/c", "/work/a/c");
	mv(b, "/work/a", "/work/b/s/a");
}

static void b_into_c_without_its_folder(cb_box *b)
{
	rm(b, "/work/b/s");
	must_write(b, "/work/b/s", "FILE");
	mv(b, "/work/b", "/work/c/b");
}

/* The folder that a was moved into is a file: a is where it was, and then there is no cycle, whichever of the two is met first. */
TEST(a_cycle_that_another_conflict_takes_apart)
{
	settle(three_folders, c_into_a_into_b, b_into_c_without_its_folder, "a/ a/1=1 a/c/ a/c/3=3 a/c/b/ a/c/b/s=FILE");
}

static void two_folders_with_a_file_each(cb_box *b)
{
	must_write(b, "/work/d1/b", "b");
	must_write(b, "/work/d2/a", "a");
}

static void folder_is_made_again_for_a_move(cb_box *b)
{
	rm(b, "/work/d2");
	must_mkdir(b, "/work/d2");
	mv(b, "/work/d1/b", "/work/d2/a");
}

static void b_becomes_x(cb_box *b)
{
	mv(b, "/work/d1/b", "/work/d1/x");
}

TEST(moved_into_a_folder_that_was_made_again)
{
	settle(two_folders_with_a_file_each, folder_is_made_again_for_a_move, b_becomes_x, "d1/ d1/x=b d2/ d2/a=a");
	settle(two_folders_with_a_file_each, b_becomes_x, folder_is_made_again_for_a_move, "d1/ d2/ d2/a=b");
}

static void file_and_two_folders(cb_box *b)
{
	must_write(b, "/work/b", "b");
	must_write(b, "/work/d1/x", "x");
	must_write(b, "/work/d2/a", "a");
}

static void linked_into_one_and_renamed_into_the_other(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, "/work/b", "/work/d1/c", &err));
	mv(b, "/work/b", "/work/d2/a");
}

static void first_folder_goes(cb_box *b)
{
	rm(b, "/work/d1");
}

TEST(half_a_rename_uncovers_what_it_covered)
{
	settle(file_and_two_folders, linked_into_one_and_renamed_into_the_other, first_folder_goes, "b=b d2/ d2/a=a");
}
