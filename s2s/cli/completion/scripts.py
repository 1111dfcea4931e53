"""The script for each shell: it contains the words themselves, so that pressing Tab does not start Python."""

from __future__ import annotations

__all__ = ["SCRIPTS"]

from typing import TYPE_CHECKING

from s2s.cli.completion.words import RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Words = dict[str, list[str]]

BASH = """\
_s2s_words() {{
    case "$1" in
{cases}
    esac
}}
_s2s_runs() {{
    local file
    echo last
    for file in runs/*/resolved.yaml; do
        [[ -e $file ]] && file=${{file%/*}} && echo "${{file##*/}}"
    done
}}
_s2s() {{
    local typed=${{COMP_LINE:0:COMP_POINT}} key
    typed=${{typed##*[[:space:]]}}
    key=${{typed%%=*}}
    COMPREPLY=()
    if [[ $typed == *=* && " {runs} " == *" $key "* ]]; then
        COMPREPLY=($(compgen -W "$(_s2s_runs)" -- "${{typed#*=}}"))
    else
        COMPREPLY=($(compgen -W "$(_s2s_words "$1")" -- "$typed"))
        if [[ $typed == *=* && $COMP_WORDBREAKS == *=* ]]; then
            COMPREPLY=("${{COMPREPLY[@]#*=}}")
        fi
    fi
    if [[ ${{#COMPREPLY[@]}} -eq 0 || ${{COMPREPLY[0]}} == "" ]]; then
        COMPREPLY=($(compgen -f -- "${{typed#*=}}"))
    fi
}}
complete -o nospace -F _s2s {commands}
"""
"""Bash splits `key=value` at = if that is in COMP_WORDBREAKS; then only the part after it is replaced"""

ZSH = """\
#compdef {commands}
_s2s() {{
    local -a words_of_command
    case "${{words[1]:t}}" in
{cases}
    esac
    if [[ $PREFIX == *=* && " {runs} " == *" ${{PREFIX%%=*}} "* ]]; then
        compset -P '*='
        compadd -- last runs/*/resolved.yaml(N:h:t)
        return
    fi
    compadd -S '' -- $words_of_command && return
    compset -P '*='
    _files
}}
compdef _s2s {commands}
"""

FISH = """\
function __s2s_runs
    echo last
    for file in runs/*/resolved.yaml
        basename (dirname $file)
    end
end
{lines}
"""


def bash(words: Words) -> str:
    """The script for `source <(s2s-completion bash)`."""
    cases = "\n".join(f"        {name}) echo '{' '.join(of)}' ;;" for name, of in words.items())
    return BASH.format(cases=cases, commands=" ".join(words), runs=" ".join(RUNS))


def zsh(words: Words) -> str:
    """The script for zsh."""
    cases = "\n".join(f"        {name}) words_of_command=({_quoted(of)}) ;;" for name, of in words.items())
    return ZSH.format(cases=cases, commands=" ".join(words), runs=" ".join(RUNS))


def fish(words: Words) -> str:
    """The script for fish, which itself completes files after `key=`."""
    lines = [f'complete -c {name} -a "{" ".join(of)}"' for name, of in words.items()]
    for name, of in words.items():
        lines += [f"complete -c {name} -a '{key}=(__s2s_runs)'" for key in RUNS if f"{key}=" in of]
    return FISH.format(lines="\n".join(lines))


def _quoted(words: list[str]) -> str:
    return " ".join(f"'{word}'" for word in words)


SCRIPTS: Mapping[str, Callable[[Words], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
