/* A conflict that is settled for one side gives that side's picture, merged into it or into the other, and loses nothing else. */
#include "harness/sides.h"

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
	must_settle(folder_with_a_file, folder_becomes_a_file, file_comes_into_it, "d/ d/new=NEW");
	must_settle(folder_with_a_file, file_comes_into_it, folder_becomes_a_file, "d=FILE");
	must_settle(folder_with_a_file, folder_becomes_a_file, file_in_it_changes, "d/ d/old=CHANGED");
	must_settle(folder_with_a_file, file_in_it_changes, folder_becomes_a_file, "d=FILE");
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
	must_settle(two_files, a_becomes_c, e_becomes_c, "a=a c=e");
	must_settle(two_files, a_becomes_c, c_is_written, "a=a c=C e=e");
	must_settle(two_files, c_is_written, a_becomes_c, "c=a e=e");
	must_settle(two_files, a_becomes_c, c_is_a_folder, "a=a c/ c/x=x e=e");
	must_settle(two_files, c_is_a_folder, a_becomes_c, "c=a e=e");
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
	must_settle(two_files, a_becomes_e, e_changes, "a=a e=CHANGED");
	must_settle(two_files, a_becomes_e, a_goes, "e=e"); /* the rename is taken back, so also what it covered */
	must_settle(two_files, a_goes, a_becomes_e, "e=a");
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
	must_settle(folder_of_two, folder_becomes_c, c_is_written, "c=C f/ f/1=1 f/2=2 f/4=4");
	must_settle(folder_of_two, folder_becomes_c, c_is_written_and_folder_changed, "c=C f/ f/1=1 f/2=CHANGED f/3=3 f/4=4");
	must_settle(folder_of_two, c_is_written_and_folder_changed, folder_becomes_c, "c/ c/1=1 c/2=CHANGED c/3=3 c/4=4");
	must_settle(folder_of_two, folder_becomes_c, c_is_made, "c/ f/ f/1=1 f/2=2 f/4=4");
	must_settle(folder_of_two, c_is_made, folder_becomes_c, "c/ c/1=1 c/2=2 c/4=4");
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
	must_settle(two_names, one_is_saved_by_rename, the_other_goes, "f=old");
	must_settle(two_names, the_other_goes, one_is_saved_by_rename, "b=old f=NEW");
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
	must_settle(two_names_and_a_folder, one_moves_into_the_folder, the_folder_goes, "b=old f=old");
	must_settle(two_names_and_a_folder, the_folder_goes, one_moves_into_the_folder, "d/ d/b=old f=old");
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
	must_settle(two_names, both_are_saved, b_alone_goes, "f=F");
	must_settle(two_names, b_alone_goes, both_are_saved, "b=B f=F");
}

/* Each side has a new file in the place of the name that the other left it: what was written to the file is meant for the one name. */
TEST(each_saved_another_name)
{
	must_settle(two_names, f_is_written_and_b_saved, f_alone_is_saved, "b=old f=SAVED");
	must_settle(two_names, f_alone_is_saved, f_is_written_and_b_saved, "b=OTHER f=WRITTEN");
	must_settle(two_names, f_is_written_and_b_saved, f_goes, "b=old");
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
	must_settle(files_x_and_y, y_is_linked_as_g_and_becomes_x, g_is_written, "g=G x=x y=y");
	must_settle(files_x_and_y, g_is_written, y_is_linked_as_g_and_becomes_x, "g=y x=y");
	must_settle(files_x_and_y, y_is_linked_as_g_and_becomes_x_which_is_put_aside, g_is_written, "g=G x=x y=y");
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
	must_settle(file_and_folder, file_gets_a_name_in_it, file_takes_its_place, "c=new d=c");
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
	for (int i = 0; i < 20; i++) must_settle(folder_b, b_becomes_e_and_is_made_again, e_is_made, "b/ e/ e/d/");
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
	must_settle(file_and_full_folder, file_takes_the_folders_place_and_is_made_again, file_goes_into_the_folder,
	            "c/ c/c=a c/x=x");
	must_settle(file_and_full_folder, file_goes_into_the_folder, file_takes_the_folders_place_and_is_made_again,
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
	must_settle(link_and_folder, folder_for_the_link_becomes_a_file, link_goes, "b=file d/");
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
	must_settle(one_file_two_names, c_is_renewed_and_becomes_b, b_goes_and_c_is_renewed, "c=renewed");
	must_settle(one_file_two_names, b_goes_and_c_is_renewed, c_is_renewed_and_becomes_b, "b=other");
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
	must_settle_each(one_file_c, c_becomes_b, c_is_renewed_and_linked_as_b, "b=renewed", "b=renewed c=renewed");
	must_settle(one_file_c, c_is_renewed_and_linked_as_b, c_becomes_b, "b=renewed");
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
		must_settle(two_names_and_another, others[i], f_is_saved, texts[i]);
		must_settle(two_names_and_another, f_is_saved, others[i], their_texts[i]);
	}
	must_settle(two_names_and_another, f_is_saved_and_b_a_folder, f_is_saved_and_b_changed, "b=CHANGED f=SAVED m=m");
	must_settle(two_names_and_another, f_is_saved_and_b_changed, f_is_saved_and_b_a_folder, "b/ b/x=x f=OTHER m=m");
}

/* What was moved there goes back, and so the other name is as it was. */
TEST(another_name_of_a_saved_file_is_uncovered)
{
	must_settle(two_names_and_another, f_is_saved_and_m_becomes_b, f_is_saved_and_m_becomes_d, "b=old d=m f=SAVED");
	must_settle(two_names_and_another, f_is_saved_and_m_becomes_d, f_is_saved_and_m_becomes_b, "b=m f=OTHER");
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
	must_settle(one_file_a, a_becomes_b_and_is_made_again_with_c, a_changes_beside_a_folder_b, "a=CHANGED b/ c=NEW");
	must_settle(one_file_a, a_changes_beside_a_folder_b, a_becomes_b_and_is_made_again_with_c, "a=NEW b=CHANGED c=NEW");
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
	must_settle(files_a_and_d, a_becomes_b_and_d_is_saved_with_a, both_are_written, "a=DIFFERENT b=WRITTEN d=DIFFERENT");
	must_settle(files_a_and_d, both_are_written, a_becomes_b_and_d_is_saved_with_a, "a=SAVED b=WRITTEN d=SAVED");
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
