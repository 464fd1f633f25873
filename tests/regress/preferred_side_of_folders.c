/* Folders that stay, go into each other, were made again: a conflict about them, settled for one side, keeps all that is in them. */
#include "harness/sides.h"

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
	must_settle(folder_of_three, d_goes, d_becomes_e, "e/ e/f=f e/g=g e/s/ e/s/h=h");
	must_settle(folder_of_three, d_goes, d_becomes_e_and_f_goes, "e/ e/g=g e/s/ e/s/h=h");
	must_settle(folder_of_three, d_goes, d_is_closed, "d/ d/f=f d/g=g d/s/ d/s/h=h");
	must_settle(folder_of_three, d_becomes_e, d_goes, "");
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
	must_settle(a_file_in_and_beside_a_folder, h_is_renewed_and_d_goes, d_becomes_e, "e/ e/f=f h=H");
	must_settle(a_file_in_and_beside_a_folder, d_becomes_e, h_is_renewed_and_d_goes, "h=H");
	must_settle(folder_of_three, s_is_taken_out_and_h_renewed, d_becomes_e, "e/ e/f=f e/g=g s/ s/h=H");
	must_settle(folder_of_three, d_becomes_e, s_is_taken_out_and_h_renewed, "s/ s/h=H");
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
	must_settle(two_ways_of_folders, first_goes_below_the_second, second_goes_below_the_first,
	            "d1/ d1/s/ d1/s/a=a d1/s/n/ d1/s/n/c=c");
	must_settle(two_ways_of_folders, second_goes_below_the_first, first_goes_below_the_second,
	            "d2/ d2/a/ d2/a/a=a d2/c=c d2/g/");
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
	must_settle(four_folders, each_into_the_next, last_into_the_first,
	            "1/ 1/n/ 1/n/d=4 1/n/s/ 1/n/t/ 1/n/t/a=1 2/ 2/s/ 2/s/b=2 3/ 3/s/ 3/s/c=3");
	must_settle(four_folders, last_into_the_first, each_into_the_next,
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
	must_settle(three_folders, c_into_a_into_b, b_into_c_without_its_folder, "a/ a/1=1 a/c/ a/c/3=3 a/c/b/ a/c/b/s=FILE");
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
	must_settle(two_folders_with_a_file_each, folder_is_made_again_for_a_move, b_becomes_x, "d1/ d1/x=b d2/ d2/a=a");
	must_settle(two_folders_with_a_file_each, b_becomes_x, folder_is_made_again_for_a_move, "d1/ d2/ d2/a=b");
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
	must_settle(file_and_two_folders, linked_into_one_and_renamed_into_the_other, first_folder_goes, "b=b d2/ d2/a=a");
}
