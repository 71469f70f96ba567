"""Shell lines that run ``rm`` in some way, as hypothesis strategies. In: nothing. Out: lines.

A line is a spelling of ``rm -rf x`` in up to three contexts; ``damaged`` ones have some signs added or taken away.
"""

from __future__ import annotations

import shlex

from hypothesis import strategies as st
from lines import lines

_NAMES = [
    *("rm", r"\rm", "'rm'", "r''m", 'r"m"', r"$'\x72m'", r"r\m", "$X", "${X}", "${U:-rm}", "$(echo rm)", "`echo rm`"),
    *("r$U''m", "$BIN/rm", "$BIN/r?", '"$BIN/rm"', "${X%z}", 'r"$U"m', "r${U}m", "$R$M", "r\\\nm", "~/rm", '$"rm"'),
]
_FLAGS = [
    *("-rf", "-fr", "-r -f", "--recursive --force", "-f -R", "-'rf'", "-r''f", "$'-rf'", "$F", '"-rf"', "-r$U''f"),
    *("-v -rf", "x -rf", "--recurs --for", '"$F"', "-r {-f,x}", "{-r,-f}", "-rf$U", "-f x -r", "$(echo -rf)"),
]
_ENDS = ["x", "y z", '"a b"', "*.o", ""]
_WHOLE = ["{rm,-rf,x}", "{$X,-rf,x}", "rm${IFS}-rf${IFS}x", "rm $Q", "$A"]
_HARMLESS = [
    *("ls", "echo hi", "true", "cat f", "echo 'a;b'", 'echo "a $X"', "grep x f", "echo a#b", "cd d", "W=1"),
    *("echo {a,b}", "[ -d x ]", "[[ a == b ]]", "false", "echo \\; b", "(( 1 ))", ": # c\n:"),
]
_CONTEXTS = lines(
    r"""
@; L
L; @
L && @
L || @
L | @
L\n@
@ & wait
L & @
@ |& cat
( @ )
{ @; }
if true; then @; fi
if @; then :; else :; fi
if false; then :; elif true; then @; fi
for i in 1; do @; done
for i in a\ndo\n@\ndone
while @; do break; done
until @; do break; done
case a in a) @;; esac
case a in (b) :;; *) @ ;; esac
case a in a) : ;& b) @;; esac
case a in a) : ;;& *) @;; esac
case $(@) in x) ;; esac
f() { @; }; f
function f { @; }; f
f() ( @ ); f
select i in a; do @; break; done <<< 1
echo $(@)
echo "$(@)"
cat <(@)
echo a > >(@)
V=$(@)
V=$(@) ls
V=(a $(@))
a[$(@; echo 1)]=2
export V=$(@)
echo ${U:-$(@)}
echo "${U:-$(@)}"
echo ${X#$(@)}
echo ${X/a/$(@)}
echo ${a[$(@; echo 1)]}
echo $((1+$(@; echo 1)))
echo $[1+$(@; echo 1)]
(( $(@; echo 1) ))
[[ -n $(@) ]]
[ -n "$(@)" ]
for i in $(@); do :; done
for ((i=$(@; echo 0);i<1;i++)); do :; done
echo a{b,$(@)}
cat <<E\n$(@)\nE
cat <<-E\n	$(@)\n	E\nL
cat <<'E'\nx\nE\n@
cat <<\E\nx\nE\n@
cat <<"E"\n$(\nE\n@
cat <<E\nE x\n E\nE\n@
cat <<E && @\nhello\nE
cat <<A <<B\nx\nA\ny\nB\n@
cat <<< "$(@)"
bash <<E\n@\nE
bash <<'E'\n@\nE
eval @
sh -c '"$@"' _ @
time @
time -p @
! @
coproc @; wait
coproc { @; }; wait
time { @; }
>o @
@ >o 2>&1
2>o @
<<< x @
V=1 @
V=1 W=$U @
V='a b' @
V=(1 2); @
#c\n@
L;#c\n@
echo # x\n@
echo "#" ; @
echo $# ; @
echo ${#X}; @
echo a\ #b; @
echo $'a\'b'; @
echo "a'b"; @
echo 'a"b'; @
echo a\'b; @; echo c\'d
echo "\""; @
echo "$(echo ")")"; @
echo ${U:-'}'}; @
echo $( (echo a) ); @
echo $(echo a # )\n); @
[[ a =~ ^(a|b)$ ]]; @
echo [a; @
echo {a; @
echo a>&2; @
exec 3>o; @
{ echo a; } {fd}>o; @
env V=1 @
env -i PATH=$PATH @
env -u V @
timeout 5 @
timeout -k 1 -s KILL 5 @
timeout $S @
nohup @
nice -n 5 @
nice -5 @
setsid -w @
stdbuf -o L @
exec @
exec -a n @
command @
builtin command @
sudo @
sudo -u root @
sudo -n V=1 @
echo a | xargs @
echo a | xargs -n 1 @
echo a | xargs -I{} @ {}
env -- nice timeout 5 @
find . -maxdepth 0 -exec @ {} \;
find . -maxdepth 0 -exec @ {} +
"""
)
_QUOTED = lines(
    r"""
sh -c @
bash -ec @
bash -c -e @
bash -o pipefail -c @
bash -c 'eval "$1"' _ @
env bash -c @
sudo bash -c @
eval @
trap @ EXIT
bash <<< @
. /dev/stdin <<< @
echo @ | sh
printf %s @ | bash
source <(echo @)
bash <(echo @)
C=@; eval "$C"
C=@ sh -c '$C'
find . -maxdepth 0 -exec sh -c @ \;
echo a | xargs sh -c @
E='-maxdepth 0 -exec sh -c @ ;'; find . $E
"""
)
_SIGNS = [*"'\"\\$`(){}[];&|<>#!~*?= \t\n\r-", "$(", "${", "<<", "\\\n", "$'", "))", "((", "\u00a0", "\x0b"]


def _doubly(text: str) -> str:
    for sign in '\\$"`':
        text = text.replace(sign, "\\" + sign)
    return f'"{text}"'


@st.composite
def denied(draw: st.DrawFn) -> str:
    """A line that calls ``rm``, most often with ``-rf``, if it is right."""
    if draw(st.integers(0, 5)):
        line = " ".join(draw(st.sampled_from(words)) for words in (_NAMES, _FLAGS, _ENDS)).strip()
    else:
        line = draw(st.sampled_from(_WHOLE))
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 3)):
            context = draw(st.sampled_from(_CONTEXTS))
            line = context.replace("L", draw(st.sampled_from(_HARMLESS))).replace("@", line, 1)
        else:
            quote = draw(st.sampled_from([shlex.quote, _doubly]))
            line = draw(st.sampled_from(_QUOTED)).replace("@", quote(line), 1)
    return line


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """The same with a few signs put in or taken out, so that the line may mean anything."""
    line = draw(denied())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(line)))
        if draw(st.booleans()):
            line = line[:at] + draw(st.sampled_from(_SIGNS)) + line[at:]
        else:
            line = line[:at] + line[at + 1 :]
    return line
