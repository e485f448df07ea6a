"""The words, tables and style that all sections share. Text is escaped here; sections never write raw text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from forewarp.tools import wording
from forewarp.tools.parts import Interval

TINY = 1e-6
"""Numbers nearer to zero than this are told as about zero."""

KINDS = {
    "faster": ("faster", "faster than the reference"),
    "slower": ("slower", "slower than the reference"),
    "tie": ("even", "as fast as the reference, within 1 %"),
    "inconclusive": ("even", "faster and slower are both possible"),
    "ambiguous": ("doubt", "ambiguous: equal kernels came out unequal"),
    "suspicious": ("odd", "suspicious: its time is not believed"),
    "impossible": ("odd", "impossible: faster than the device can be"),
    "unmeasured": ("none", "not measured"),
    "unfinished": ("none", "its measurement was begun and has no result"),
}
"""Class of colour and meaning of what became of a candidate; what is not here failed."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--soft:#5c5c5c;--paper:#fff;--panel:#f5f5f5;--rule:#dcdcdc;--grid:#e8e8e8;
--faster:#00795a;--slower:#c2410c;--even:#5f6b7a;--doubt:#a16207;--odd:#9d3fa5;--fail:#b42318;--none:#9aa0a6;
--best:#0060a8;--band:#0060a826;--label:#ffe9b0;--plus:#e3f5e8;--minus:#fde8e6}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#a3a3a3;--paper:#16181c;--panel:#20242a;--rule:#3a3f47;
--grid:#2b3038;--faster:#3fc08f;--slower:#f08a5d;--even:#9fb0c3;--doubt:#e0b340;--odd:#d28ad8;--fail:#ff7b72;
--none:#737a82;--best:#6cb6ff;--band:#6cb6ff2e;--label:#5a4510;--plus:#12351f;--minus:#40191a}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:0 auto;padding:1rem;color:var(--ink);
background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.35rem;margin:.4rem 0}h2{font-size:1.12rem;display:inline}h3{font-size:1rem;margin:1.1rem 0 .3rem}
p{margin:.45rem 0;max-width:75ch}nav{margin:.8rem 0;font-size:14px}nav a{margin-right:.9rem;display:inline-block}
a{color:var(--best)}.soft,figcaption{color:var(--soft);font-size:13px}
.label{background:var(--label);padding:.15rem .6rem}
details.part{border-top:1px solid var(--rule);padding:.7rem 0}summary{cursor:pointer}details.part>*+*{margin-top:.5rem}
.wide{overflow-x:auto;max-width:100%}.tall{max-height:34rem;overflow:auto}
table{border-collapse:collapse;font-size:13px}td,th{text-align:left;padding:.2rem .55rem;vertical-align:top;
border-bottom:1px solid var(--rule);white-space:nowrap;overflow-wrap:normal}
th{position:sticky;top:0;background:var(--paper)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.t{white-space:normal;min-width:13rem}
th[aria-sort]{cursor:pointer}th[aria-sort=ascending]:after{content:" ▲"}th[aria-sort=descending]:after{content:" ▼"}
figure{margin:.6rem 1.2rem .6rem 0;display:inline-block;vertical-align:top;max-width:100%}
figure h3{margin:0 0 .2rem}svg{font:11px system-ui,sans-serif;max-width:100%;height:auto}svg.free{max-width:none}
svg text{fill:var(--ink)}svg .soft{fill:var(--soft);font-size:inherit}.grid{stroke:var(--grid)}.axis{stroke:var(--soft)}
.faster{--c:var(--faster)}.slower{--c:var(--slower)}.even{--c:var(--even)}.doubt{--c:var(--doubt)}.odd{--c:var(--odd)}
.fail{--c:var(--fail)}.none{--c:var(--none)}.best{--c:var(--best)}.ink{--c:var(--ink)}
td.faster,td.slower,td.even,td.doubt,td.odd,td.fail,td.none,span.key{color:var(--c)}
.dot{fill:var(--c)}.hollow{fill:var(--paper);stroke:var(--c);stroke-width:1.5}.mark{stroke:var(--c)}
.edge{stroke:var(--rule);fill:none;stroke-width:1.3}.edge.won{stroke:var(--best);stroke-width:2.6}
.band{fill:var(--band)}
.step{fill:none;stroke:var(--best);stroke-width:2}.bar{fill:var(--c)}.track{fill:var(--panel);stroke:var(--rule)}
pre{background:var(--panel);padding:.7rem;overflow:auto;font:12px/1.45 ui-monospace,monospace;margin:.4rem 0;
max-height:30rem}
pre .a,pre .d,pre .h{display:block}pre .a{background:var(--plus)}pre .d{background:var(--minus)}
pre .h{color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:.7rem;margin:.7rem 0}.tile{background:var(--panel);padding:.5rem .8rem;
border-radius:6px;min-width:8.5rem}.tile b{display:block;font-size:1.15rem}
.tile span{font-size:12.5px;color:var(--soft)}
span.key{margin-right:1rem;font-size:13px;white-space:nowrap}meter{width:7rem}
@media(max-width:600px){body{font-size:14px;padding:.6rem}.tile{flex:1 1 42%}}
"""

SCRIPT = """
for(const t of document.querySelectorAll('table.sort'))t.querySelectorAll('th').forEach((h,i)=>{
h.setAttribute('aria-sort','none');h.tabIndex=0;
const go=()=>{const up=h.getAttribute('aria-sort')!=='descending';
t.querySelectorAll('th').forEach(o=>o.setAttribute('aria-sort','none'));
h.setAttribute('aria-sort',up?'descending':'ascending');
const v=r=>{const s=r.cells[i]?r.cells[i].textContent:'',n=parseFloat(s.replace(/[^0-9.eE+-]*/,''));return[s,n]};
[...t.tBodies[0].rows].sort((a,b)=>{const[x,m]=v(a),[y,n]=v(b);
if((x==='')!==(y===''))return x===''?1:-1;
const c=isNaN(m)||isNaN(n)?x.localeCompare(y):m-n;return up?-c:c}).forEach(r=>t.tBodies[0].append(r))};
h.onclick=go;h.onkeydown=e=>{if(e.key==='Enter'||e.key===' '){e.preventDefault();go()}}})
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: `kind` is a class of colour or of layout (n for numbers, t for running text)."""

    text: str
    kind: str = ""


def kind_of(fate: str) -> str:
    """Return the class of colour of what became of a candidate."""
    return KINDS.get(fate, ("fail", ""))[0]


def meaning(fate: str) -> str:
    """Return what became of a candidate, in words."""
    return KINDS.get(fate, ("", f"failed: {fate.replace('_', ' ')}"))[1]


def legend(fates: Sequence[str]) -> str:
    """Return what the colours of these candidates mean, each once."""
    order = list(KINDS)
    found: dict[str, list[str]] = {}
    for fate in sorted(set(fates), key=lambda f: (order.index(f) if f in KINDS else len(order), f)):
        found.setdefault(kind_of(fate), []).append(fate.replace("_", " "))
    keys = (f'<span class="key {kind}">● {escape(", ".join(names))}</span>' for kind, names in found.items())
    return f"<p>{''.join(keys)}</p>" if found else ""


def section(name: str, title: str, body: str, *, lead: str = "", folded: bool = False) -> str:
    """Return a part of the page that can be folded; "" where there is nothing to show in it."""
    if not body:
        return ""
    said = f"<p>{escape(lead)}</p>" if lead else ""
    state = "" if folded else " open"
    return (
        f'<details class="part" id="{name}"{state}><summary><h2>{escape(title)}</h2></summary>{said}{body}</details>\n'
    )


def table(head: Sequence[str], rows: Sequence[Sequence[Cell | str]], *, sort: bool = False, tall: bool = False) -> str:
    """Return a table without the columns that have nothing in them; numbers are aligned by their first row.

    End tags that HTML can do without are left out: a table may have thousands of rows.
    """
    filled = [k for k in range(len(head)) if any(_text(row[k]) for row in rows)]
    if not filled:
        return ""
    head, rows = [head[k] for k in filled], [[row[k] for k in filled] for row in rows]
    first = [c if isinstance(c, Cell) else Cell(c) for c in rows[0]]
    heads = "".join(
        f"<th{' class=n' if 'n' in c.kind.split() else ''}>{escape(h)}" for h, c in zip(head, first, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}" for row in rows)
    kind = f"wide{' tall' if tall else ''}"
    return f'<div class="{kind}"><table{" class=sort" if sort else ""}><thead><tr>{heads}<tbody>{body}</table></div>'


def _text(given: Cell | str) -> str:
    return given.text if isinstance(given, Cell) else given


def _cell(given: Cell | str) -> str:
    cell = given if isinstance(given, Cell) else Cell(given)
    kind = f'"{cell.kind}"' if " " in cell.kind else cell.kind
    return f"<td{f' class={kind}' if kind else ''}>{escape(cell.text, quote=False)}"


def number(value: float | None, form: str = ".3g") -> Cell:
    """Return a cell with a number; empty where there is none."""
    if value is not None and form == ".3g" and not TINY <= abs(value) < 1000 and value:
        return Cell("≈0" if abs(value) < TINY else f"{value:,.0f}", "n")
    return Cell("" if value is None else format(value, form), "n")


def speedup(value: Interval | None) -> Cell:
    """Return a cell with a speed-up and its interval; empty where there is none."""
    return Cell("" if value is None else wording.speedup(value), "n")


def became(fate: str) -> Cell:
    """Return a cell that says in colour what became of a candidate."""
    return Cell(fate.replace("_", " "), kind_of(fate))
