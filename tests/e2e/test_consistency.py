"""Transfers between accounts, under readers and SIGKILL: no read sees money that moved half way, none that was acknowledged is lost.

Three writers move money; each transfer is one transaction of three statements, and its row in `moved` says that it was
made. Eight readers, four over HTTP and four over pgwire, ask for sums that no transfer can change and for the difference
between views of the same data. Meanwhile the server is killed and started again. Outside of it each writer remembers
what was acknowledged, and the one transfer that is in doubt.
"""
import http.client
import random
import threading
import time

import psycopg
import pytest

ACCOUNTS, OWNERS, EACH = 60, 7, 1000
TOTAL = ACCOUNTS * EACH
WRITERS, ROUNDS, ROUND_SECONDS = 3, 3, 9
READS_LEAST, TRANSFERS_LEAST = 10, 15  # of each thread in each round: fewer, and the test would prove nothing

SCHEMA = f"""
CREATE TABLE acct (id INT PRIMARY KEY, owner TEXT, bal BIGINT);
CREATE TABLE moved (id BIGINT PRIMARY KEY, source INT, target INT, amount BIGINT);
INSERT INTO acct SELECT x, 'o' || (x % {OWNERS})::text, {EACH} FROM generate_series(1, {ACCOUNTS}) AS s(x);
CREATE MATERIALIZED VIEW by_owner AS SELECT owner, sum(bal)::bigint AS s, count(*) AS n FROM acct GROUP BY owner;
CREATE MATERIALIZED VIEW joined AS SELECT a.owner, a.bal, o.s FROM acct a JOIN by_owner o ON a.owner = o.owner;
CREATE MATERIALIZED VIEW by_join AS SELECT owner, sum(bal)::bigint AS s, min(s) AS told FROM joined GROUP BY owner;
CREATE MATERIALIZED VIEW flow AS
    SELECT id, sum(amount)::bigint AS s FROM (SELECT target AS id, amount FROM moved UNION ALL SELECT source, - amount FROM moved) m GROUP BY id;
CREATE MATERIALIZED VIEW wrong AS SELECT a.id FROM acct a LEFT JOIN flow f ON a.id = f.id WHERE a.bal <> {EACH} + coalesce(f.s, 0);
"""

# What never moves, each asked in one statement: what it must answer.
QUESTIONS = {
    "SELECT sum(s)::bigint, sum(n)::bigint FROM by_owner": (TOTAL, ACCOUNTS),
    "SELECT (SELECT sum(bal)::bigint FROM acct), (SELECT sum(s)::bigint FROM by_owner), (SELECT sum(s)::bigint FROM by_join)": (TOTAL,) * 3,
    "SELECT count(*) FROM by_owner a FULL JOIN by_join b ON a.owner = b.owner WHERE a.s IS DISTINCT FROM b.s OR b.s IS DISTINCT FROM b.told": (0,),
    f"SELECT (SELECT coalesce(sum(s), 0)::bigint FROM flow), (SELECT count(*) FROM wrong), (SELECT sum(bal)::bigint FROM acct) - {TOTAL}": (0, 0, 0),
}
BY_OWNER, BY_JOIN = "SELECT owner, s FROM by_owner ORDER BY owner", "SELECT owner, s FROM by_join ORDER BY owner"


class Moved(AssertionError):
    """Something that never moves did."""


def must_be(got, wanted, question):
    if got != wanted:
        raise Moved(f"{got} instead of {wanted}: {question}")


# ---- readers: each makes one check -------------------------------------------------------------------------------


def http_rows(server, *statements):
    """The rows of each statement; several are one transaction."""
    answer = server.post("/api/v1/sql", {"sql": "; ".join(statements)})
    if answer.status != 200:
        raise AssertionError(f"{answer.status} {answer.text}")
    body = answer.json()
    return [[tuple(row) for row in one["rows"]] for one in (body if isinstance(body, list) else [body])], answer


def ask_over_http(server, _, rng):
    question, wanted = rng.choice(list(QUESTIONS.items()))
    must_be(http_rows(server, question)[0][0][0], wanted, question)


def ask_twice_over_http(server, _, __):
    first, second = http_rows(server, BY_OWNER, BY_JOIN)[0]
    must_be(first, second, "by_owner and by_join in one request")


def ask_at_an_epoch_over_http(server, _, __):
    (first,), answer = http_rows(server, BY_OWNER)
    (second,), _ = http_rows(server, BY_JOIN.replace("by_join", f"by_join AS OF EPOCH {answer.epoch}"))
    must_be(first, second, f"by_owner and by_join, both at epoch {answer.epoch}")


def ask(_, connection, rng):
    question, wanted = rng.choice(list(QUESTIONS.items()))
    must_be(connection.execute(question).fetchone(), wanted, question)


def ask_twice_in_a_transaction(_, connection, __):
    with connection.transaction():
        first, second = (connection.execute(q).fetchall() for q in (BY_OWNER, BY_JOIN))
    must_be(first, second, "by_owner and by_join in one transaction")


READERS = [ask_over_http, ask_over_http, ask_twice_over_http, ask_at_an_epoch_over_http,
           ask, ask, ask_twice_in_a_transaction, ask_twice_in_a_transaction]


def torn(_, connection, __):
    """The planted fault: two statements, so two epochs."""
    first, second = (connection.execute(q).fetchall() for q in (BY_OWNER, BY_JOIN))
    must_be(first, second, "by_owner and by_join in two transactions")


def forgetful(_, connection, __):
    """The planted fault: an account is left out."""
    must_be(connection.execute("SELECT sum(bal)::bigint FROM acct WHERE id > 1").fetchone(), (TOTAL,), "the sum without an account")


# ---- threads -----------------------------------------------------------------------------------------------------


class Worker(threading.Thread):
    """Does `step(connection)` until `stop`; a connection that goes with the server ends it. Any other error stops all."""

    def __init__(self, server, stop):
        super().__init__(daemon=True)
        self.server, self.stop, self.done, self.error = server, stop, 0, None

    def run(self):
        try:
            with self.server.connect() as connection:
                while not self.stop.is_set():
                    self.step(connection)
                    self.done += 1
        except (psycopg.OperationalError, ConnectionError, http.client.HTTPException):
            pass
        except Exception as error:  # noqa: BLE001 - told by the main thread
            self.error = error
            self.stop.set()


class Reader(Worker):
    def __init__(self, server, stop, check, seed):
        super().__init__(server, stop)
        self.step = lambda connection: check(server, connection, rng)
        self.name, rng = getattr(check, "__name__", "reader"), random.Random(seed)


class Writer(Worker):
    """Moves money; `acknowledged` are the transfers that were committed, `doubt` the one that may have been."""

    def __init__(self, server, stop, number, acknowledged=(), whole=True):
        super().__init__(server, stop)
        self.number, self.whole = number, whole
        self.acknowledged, self.doubt, self.name = dict(acknowledged), None, f"writer {number}"
        self.rng = random.Random(f"{number} {len(self.acknowledged)}")

    def step(self, connection):
        source, target = self.rng.sample(range(1, ACCOUNTS + 1), 2)
        ident, move = len(self.acknowledged) * WRITERS + self.number, (source, target, self.rng.randint(1, 9))
        while not self.stop.is_set():
            self.doubt = ident, move
            try:
                self.transfer(connection, ident, *move)
            except psycopg.errors.SerializationFailure:
                self.doubt = None
                continue
            self.acknowledged[ident] = move
            self.doubt = None
            return

    def transfer(self, connection, ident, source, target, amount):
        """One transaction; or three, which is a planted fault."""
        statements = (f"UPDATE acct SET bal = bal - {amount} WHERE id = {source}", f"UPDATE acct SET bal = bal + {amount} WHERE id = {target}",
                      f"INSERT INTO moved VALUES ({ident}, {source}, {target}, {amount})")
        if not self.whole:
            for statement in statements:
                connection.execute(statement)
            return
        with connection.transaction():
            for statement in statements:
                connection.execute(statement)


class Bank:
    """A server with accounts, and what was acknowledged outside of it."""

    def __init__(self, server, checks=READERS, whole=True):
        self.server, self.checks, self.whole = server, checks, whole
        self.acknowledged = [{} for _ in range(WRITERS)]
        server.psql(SCHEMA)

    def round(self, number, seconds, kill):
        """Everything runs for a while; then the server is killed under it, or everything stops. Raises what a thread found."""
        stop = threading.Event()
        writers = [Writer(self.server, stop, n, known, self.whole) for n, known in enumerate(self.acknowledged)]
        readers = [Reader(self.server, stop, check, f"{number} {i}") for i, check in enumerate(self.checks)]
        before = sum(map(len, self.acknowledged))
        for worker in writers + readers:
            worker.start()
        found = stop.wait(seconds)
        if kill and not found:
            self.server.kill()
        stop.set()
        for worker in writers + readers:
            worker.join(30)
            assert not worker.is_alive(), f"{worker.name} stands still"
        for worker in writers + readers:
            if worker.error:
                raise worker.error
        slow = {w.name: w.done for w in writers + readers if w.done < (TRANSFERS_LEAST if w in writers else READS_LEAST)}
        assert not slow, f"too little was done in {seconds} s to prove anything: {slow}"
        self.acknowledged = [w.acknowledged for w in writers]
        if kill:
            self.server.start()
        self.judge({w.doubt[0]: w.doubt[1] for w in writers if w.doubt})
        return sum(map(len, self.acknowledged)) - before, sum(r.done for r in readers)

    def judge(self, doubt):
        """Compares the tables and the views with the model; takes over what happened of what was in doubt."""
        model = {ident: move for known in self.acknowledged for ident, move in known.items()}
        with self.server.connect() as db:
            moved = {ident: move for ident, *move in db.execute("SELECT id, source, target, amount FROM moved").fetchall()}
            moved = {ident: tuple(move) for ident, move in moved.items()}
            lost = {i: m for i, m in model.items() if moved.get(i) != m}
            assert not lost, f"acknowledged and lost: {lost}"
            extra = {i: m for i, m in moved.items() if i not in model and doubt.get(i) != m}
            assert not extra, f"there and never asked for: {extra}"
            balances = dict.fromkeys(range(1, ACCOUNTS + 1), EACH)
            for source, target, amount in moved.values():
                balances[source] -= amount
                balances[target] += amount
            assert dict(db.execute("SELECT id, bal FROM acct").fetchall()) == balances
            owners = {}
            for ident, balance in balances.items():
                owners[f"o{ident % OWNERS}"] = owners.get(f"o{ident % OWNERS}", 0) + balance
            for question in (BY_OWNER, BY_JOIN):
                assert dict(db.execute(question).fetchall()) == owners, question
        for ident in doubt.keys() & moved.keys():
            self.acknowledged[ident % WRITERS][ident] = moved[ident]


def test_sums_never_move_and_no_acknowledged_transfer_is_lost(fresh):
    bank = Bank(fresh(workers=2))
    start, figures = time.monotonic(), []
    for number in range(ROUNDS):
        figures.append(bank.round(number, ROUND_SECONDS, kill=True))
    figures.append(bank.round(ROUNDS, ROUND_SECONDS / 2, kill=False))
    print(f"{sum(f[0] for f in figures)} transfers, {sum(f[1] for f in figures)} checks, {ROUNDS} kills in {time.monotonic() - start:.0f} s")


# ---- the test can fail: planted faults ---------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [torn, forgetful], ids=lambda r: r.__name__)
def test_a_faulty_reader_is_found(fresh, reader):
    with pytest.raises(Moved):
        Bank(fresh(workers=2), checks=[ask, reader, reader]).round(0, 15, kill=False)


@pytest.mark.parametrize("check", [ask, ask_over_http])
def test_writers_that_move_money_in_halves_are_found(fresh, check):
    with pytest.raises(Moved):
        Bank(fresh(workers=2), checks=[check], whole=False).round(0, 15, kill=False)


def test_a_transfer_that_was_acknowledged_and_is_not_there_is_found(fresh):
    bank = Bank(fresh())
    bank.acknowledged[1][1] = (1, 2, 5)
    with pytest.raises(AssertionError, match="acknowledged and lost"):
        bank.judge({})
    bank.acknowledged[1].clear()
    bank.server.psql("INSERT INTO moved VALUES (1, 1, 2, 5);")
    with pytest.raises(AssertionError, match="never asked for"):
        bank.judge({})
