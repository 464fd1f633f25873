/* cmd_completion.c: scripts that make a shell ask `cowbox __complete` for candidates. */
#include "cli/core.h"

#include <string.h>

static const char bash_script[] =
	"# bash completion for cowbox: eval \"$(cowbox completion bash)\"\n"
	"_cowbox() {\n"
	"\tlocal line=\"${COMP_LINE:0:COMP_POINT}\" words word candidate\n"
	"\tread -ra words <<<\"$line\"\n"
	"\t[[ $line == *[[:space:]] ]] && words+=(\"\")\n"
	"\tword=\"${words[${#words[@]}-1]}\"\n"
	"\tCOMPREPLY=()\n"
	"\tlocal host=\n"
	"\twhile IFS=$'\\t' read -r candidate _; do\n"
	"\t\tif [[ $candidate == :host ]]; then\n"
	"\t\t\thost=1\n"
	"\t\t\twhile IFS= read -r candidate; do COMPREPLY+=(\"$candidate\"); done < <(compgen -f -- \"$word\")\n"
	"\t\telse\n"
	"\t\t\tCOMPREPLY+=(\"$candidate\")\n"
	"\t\tfi\n"
	"\tdone < <(\"${words[0]}\" __complete -- \"${words[@]:1}\" 2>/dev/null)\n"
	"\t# bash parts words at ':' and '@': give back only what stands after the last of them.\n"
	"\tlocal current=\"${COMP_WORDS[COMP_CWORD]}\" head\n"
	"\t[[ $current == : || $current == @ ]] && current=\n"
	"\thead=\"${word%\"$current\"}\"\n"
	"\tif [[ -n $head ]]; then\n"
	"\t\tlocal i\n"
	"\t\tfor i in \"${!COMPREPLY[@]}\"; do COMPREPLY[i]=\"${COMPREPLY[i]#\"$head\"}\"; done\n"
	"\tfi\n"
	"\t# Host files are quoted by bash itself, names in boxes here.\n"
	"\tif [[ -n $host ]]; then\n"
	"\t\tcompopt -o filenames\n"
	"\telse\n"
	"\t\tlocal k\n"
	"\t\tfor k in \"${!COMPREPLY[@]}\"; do printf -v 'COMPREPLY[k]' %q \"${COMPREPLY[k]}\"; done\n"
	"\tfi\n"
	"\t[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace\n"
	"\treturn 0\n"
	"}\n"
	"complete -F _cowbox cowbox\n";

static const char zsh_script[] = "#compdef cowbox\n"
				 "# zsh completion for cowbox: eval \"$(cowbox completion zsh)\"\n"
				 "_cowbox() {\n"
				 "\tlocal -a plain folders help\n"
				 "\tlocal candidate text\n"
				 "\twhile IFS=$'\\t' read -r candidate text; do\n"
				 "\t\tif [[ $candidate == :host ]]; then\n"
				 "\t\t\t_files\n"
				 "\t\telif [[ $candidate == */ ]]; then\n"
				 "\t\t\tfolders+=(\"$candidate\")\n"
				 "\t\telse\n"
				 "\t\t\tplain+=(\"$candidate\")\n"
				 "\t\t\thelp+=(\"$candidate${text:+  -- $text}\")\n"
				 "\t\tfi\n"
				 "\tdone < <(\"${words[1]}\" __complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
				 "\t(( ${#plain} )) && compadd -l -d help -- \"${plain[@]}\"\n"
				 "\t(( ${#folders} )) && compadd -S '' -- \"${folders[@]}\"\n"
				 "}\n"
				 "# In a folder of fpath this file is the function itself: its first call comes here.\n"
				 "if [[ ${funcstack[1]} == _cowbox ]]; then\n"
				 "\t_cowbox \"$@\"\n"
				 "else\n"
				 "\tcompdef _cowbox cowbox\n"
				 "fi\n";

static const char fish_script[] = "# fish completion for cowbox: cowbox completion fish | source\n"
				  "function __cowbox_complete\n"
				  "\tset -l words (commandline -opc)\n"
				  "\tset -l word (commandline -ct)\n"
				  "\tfor line in ($words[1] __complete -- $words[2..-1] \"$word\" 2>/dev/null)\n"
				  "\t\tif test \"$line\" = :host\n"
				  "\t\t\t__fish_complete_path \"$word\"\n"
				  "\t\telse\n"
				  "\t\t\techo $line\n"
				  "\t\tend\n"
				  "\tend\n"
				  "end\n"
				  "complete -c cowbox -f -a '(__cowbox_complete)'\n";

static cb_code run_completion(cli *c, const cli_call *call, cb_error *err)
{
	const char *shell = cli_operand_text(call, "SHELL");
	const char *script = strcmp(shell, "bash") == 0 ? bash_script : strcmp(shell, "zsh") == 0 ? zsh_script : fish_script;
	if (script == fish_script && strcmp(shell, "fish") != 0)
		return cli_usage(c, err, "no completion for '%.32s': bash, zsh or fish", shell);
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "shell", shell);
		json_member_str(w, "script", script);
		json_object_end(w);
	} else {
		cli_write(c, script, strlen(script));
	}
	return CB_OK;
}

const cli_command cmd_completion = {
	.name = "completion",
	.group = "Help",
	.summary = "print the completion script of a shell",
	.text = "Boxes, steps, checkpoints, paths in boxes, commands and options are completed. Load it in the shell's start "
		"file:\n"
		"eval \"$(cowbox completion bash)\", or for fish: cowbox completion fish | source.",
	.operands = (const cli_operand[]){{CLI_WORD, "SHELL", false, false, "bash, zsh or fish"}, {0}},
	.examples = (const char *const[]){"cowbox completion bash", NULL},
	.json = "shell     bash, zsh or fish\nscript    the script",
	.run = run_completion,
};
