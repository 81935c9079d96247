"""Makes a failing case small: fewer views, simpler queries, fewer commits, statements, rows and columns."""
import time
from dataclasses import dataclass, replace

import duckdb

from .cases import Duck, Insert
from .dialect import NOTHING, Fill, Listed, Sql, join, sql
from .expressions import Expr
from .relations import Relation, made_of


def shrink(case, fails, seconds):
    """Keeps removing parts while `fails(case)` holds.

    # Arguments
    - `fails`: whether a case still fails; any failure counts.
    - `seconds`: when to stop trying.

    # Returns
    The smallest failing case that was found.
    """
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for step in (_only_one_view, _fewer_views, _fewer_commits, _inlined_views, _simpler_views, _fewer_statements, _fewer_rows,
                     _fewer_columns, _fewer_tables):
            while (found := _first(step(case), fails, deadline)) is not None:
                case, progress = found, True
    return case


def _first(cases, fails, deadline):
    """The first case that still fails, or None when there is none or no time."""
    for case in cases:
        if time.monotonic() > deadline:
            return None
        if fails(case):
            return case
    return None


def _only_one_view(case):
    """One view with those under it."""
    for view in case.views:
        kept, below = {view.name}, {v.name: v.uses for v in case.views}
        while more := {u for name in kept for u in below[name] if u in below} - kept:
            kept |= more
        if len(kept) < len(case.views):
            yield replace(case, views=tuple(v for v in case.views if v.name in kept))


def _inlined_views(case):
    """A view under others becomes a subquery of theirs."""
    for gone in case.views:
        if any(gone.name in v.uses for v in case.views):
            rest = (v for v in case.views if v is not gone)
            yield replace(case, views=tuple(replace(v, relation=_inlined(v.relation, gone)) for v in rest))


@dataclass(frozen=True)
class _Named:
    """A common table expression, to be put where its name stands like a view."""

    name: str
    relation: Relation


def _inlined(piece, view):
    """The piece of SQL with a view's query in the place of its name."""
    if view.name not in piece.pg:
        return piece
    if piece.pg == view.name:
        return sql("({x})", x=view.relation)
    if isinstance(piece.tree, Listed):
        made = join((_inlined(p, view) for p in piece.tree.pieces), piece.tree.separator)
    elif isinstance(piece.tree, Fill):
        parts = {name: _inlined(p, view) if hasattr(p, "tree") else p for name, p in piece.tree.parts.items()}
        made = sql(piece.tree.template, piece.tree.duck_template, **parts)
    else:
        return piece
    return replace(piece, pg=made.pg, duck=made.duck, tree=made.tree)


def _fewer_views(case):
    for gone in case.views:
        kept, dropped = [], {gone.name}
        for view in case.views:
            if view.name in dropped or view.uses & dropped:
                dropped.add(view.name)
            else:
                kept.append(view)
        if kept:
            yield replace(case, views=tuple(kept))


def _fewer_commits(case):
    total = len(case.commits)
    for size in dict.fromkeys((total, total // 2, total // 4, 1)):
        for start in range(0, total, size) if size else ():
            kept = case.commits[:start] + case.commits[start + size:]
            views = tuple(replace(v, created_after=min(v.created_after, len(kept))) for v in case.views)
            yield replace(case, commits=kept, views=views)


def _simpler_views(case):
    """A view is made before any data; or its query loses a part, as long as DuckDB can still run it."""
    for i, view in enumerate(case.views):
        if view.created_after:
            yield replace(case, views=tuple(replace(v, created_after=0) for v in case.views))
    with Duck() as duck:
        for table in case.tables:
            duck.run(table.create().duck)
        for i, view in enumerate(case.views):
            for relation in _typed(duck, view.relation):
                yield _with_view(case, i, replace(view, relation=relation))
            duck.run(f"CREATE VIEW {view.name} AS {view.relation.duck}")


def _typed(duck, relation):
    """Smaller relations that DuckDB can run, with the columns that are left; none of another type than before."""
    before = _described(duck, relation)
    for piece in smaller(relation):
        columns = {c.pg: c for c in getattr(piece, "columns", relation.columns)}
        if (after := _described(duck, piece)) is None or not after.keys() <= columns.keys():
            continue
        if piece.tree is None or isinstance(piece, Relation) or all(before.get(n) == kind for n, kind in after.items()):
            yield replace(made_of(piece, [columns[n] for n in after]), name=getattr(piece, "name", None))


def _described(duck, piece):
    """Name and type of every column, or None."""
    try:
        return {r[0]: r[1] for r in duck.run(f"DESCRIBE {piece.duck}")}
    except duckdb.Error:
        return None


def smaller(piece):
    """Pieces of SQL like this one with something left out: one of its own parts of the same kind instead, or a part less."""
    tree = piece.tree
    if isinstance(tree, Listed):
        for i, one in enumerate(tree.pieces):
            rest = tree.pieces[:i], tree.pieces[i + 1:]
            if len(tree.pieces) > 1:
                yield join([*rest[0], *rest[1]], tree.separator)
            yield from (join([*rest[0], less, *rest[1]], tree.separator) for less in smaller(one))
    elif isinstance(tree, Fill):
        if tree.template.startswith("WITH {n} AS"):
            yield _inlined(tree.parts["b"], _Named(tree.parts["n"], tree.parts["q"]))
        if getattr(piece, "kind", ""):
            yield from _like_it(piece.kind, tree)
        for name, part in tree.parts.items():
            if getattr(part, "kind", "") == "optional":
                yield _filled(piece, tree, name, NOTHING)
            if hasattr(part, "tree"):
                yield from (_filled(piece, tree, name, less) for less in smaller(part))


def _like_it(kind, tree):
    """The nearest pieces inside of the same kind."""
    for part in tree.parts.values() if isinstance(tree, Fill) else tree.pieces:
        if getattr(part, "kind", "") == kind and kind != "optional":
            yield part
        elif getattr(part, "tree", None):
            yield from _like_it(kind, part.tree)


def _filled(piece, tree, name, part):
    """The piece with another part."""
    made = sql(tree.template, tree.duck_template, **{**tree.parts, name: part})
    return replace(piece, pg=made.pg, duck=made.duck, tree=made.tree) if isinstance(piece, (Sql, Expr)) else replace(made, kind=piece.kind)


def _with_view(case, i, view):
    return replace(case, views=case.views[:i] + (view,) + case.views[i + 1:])


def _fewer_statements(case):
    for i, commit in enumerate(case.commits):
        for j in range(len(commit)) if len(commit) > 1 else ():
            yield _with_commit(case, i, commit[:j] + commit[j + 1:])


def _with_commit(case, i, commit):
    return replace(case, commits=case.commits[:i] + (commit,) + case.commits[i + 1:])


def _fewer_rows(case):
    for i, commit in enumerate(case.commits):
        for j, statement in enumerate(commit):
            rows = statement.rows if isinstance(statement, Insert) else ()
            for size in {max(1, len(rows) // 2), 1} if len(rows) > 1 else ():
                for start in range(0, len(rows), size):
                    kept = rows[:start] + rows[start + size:]
                    if kept:
                        yield _with_commit(case, i, commit[:j] + (replace(statement, rows=kept),) + commit[j + 1:])


def _fewer_columns(case):
    """Drops a column that no view and no statement names (views that say `*` or the name keep it)."""
    text = " ".join(v.relation.pg for v in case.views)
    for table in case.tables:
        for column in table.columns[1:]:
            named = any(column.name in getattr(s, "reads", ()) and s.table == table.name for c in case.commits for s in c)
            if f".{column.name}" in text or named:
                continue
            yield _without_column(case, table, column)


def _without_column(case, table, column):
    kept = tuple(c for c in table.columns if c is not column)
    place = table.columns.index(column)

    def narrowed(statement):
        if not isinstance(statement, Insert) or statement.table != table.name:
            return statement
        return replace(statement, columns=kept, rows=tuple(r[:place] + r[place + 1:] for r in statement.rows))

    commits = tuple(tuple(narrowed(s) for s in commit) for commit in case.commits)
    tables = tuple(replace(t, columns=kept) if t is table else t for t in case.tables)
    views = tuple(replace(v, relation=_narrowed_relation(v.relation, table.name, column)) for v in case.views)
    return replace(case, tables=tables, commits=commits, views=views)


def _narrowed_relation(relation, table, column):
    """A view that is `SELECT * FROM table` loses the column too."""
    if relation.name != table:
        return relation
    return replace(relation, columns=tuple(c for c in relation.columns if not (isinstance(c, Expr) and c.pg == column.name)))


def _fewer_tables(case):
    used = frozenset().union(*[v.uses for v in case.views])
    for table in case.tables:
        if table.name not in used:
            commits = tuple(tuple(s for s in c if s.table != table.name) for c in case.commits)
            yield replace(case, tables=tuple(t for t in case.tables if t is not table), commits=tuple(c for c in commits if c))
