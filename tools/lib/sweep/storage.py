# SPDX-License-Identifier: MIT
"""Keeps a study: in SQLite in the sweep's folder, or in PostgreSQL for several machines."""

import contextlib
import fcntl
import hashlib
import importlib.util
import pathlib
import re
import sys
import warnings

import alembic
import optuna
import sqlalchemy

from ddprun.errors import UserError

LOCKED_SECONDS = 20  # how long SQLite waits for another program
CONNECT_SECONDS = 10
BEATS = 3  # of a trial in the time of grace, after which a silent one is taken for dead
EXPECTED = "postgresql://user@host/database, or sqlite:///file.db"
ERRORS = (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError)
OTHER_VERSION = (RuntimeError, alembic.util.CommandError)  # while it is opened
warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # what we use of it is that of a pinned version


class Storage:
    """Optuna's storage with its heartbeats. `lock()` is for what only one process may do at a time."""

    def __init__(self, url, name, grace=60):
        self.url, self.name, self.optuna = parse(url), name, None
        self.beat_seconds = max(1, grace // BEATS)
        self.engine = sqlalchemy.create_engine(self.url, **self.engine_options())
        with explaining(self, (*ERRORS, *OTHER_VERSION)), self.lock():  # two at once would both make the tables
            self.optuna = optuna.storages.RDBStorage(
                self.url.render_as_string(hide_password=False), engine_kwargs=self.engine_options(),
                heartbeat_interval=self.beat_seconds, grace_period=grace)  # fmt: skip

    @property
    def is_sqlite(self):
        return self.url.get_backend_name() == "sqlite"

    def is_gone(self):
        """Returns whether its file was removed, with all that is written to it since then."""
        return self.optuna is not None and self.is_sqlite and not pathlib.Path(self.url.database).exists()

    def text(self):
        """Returns the URL without a password."""
        query = {key: value for key, value in self.url.query.items() if "password" not in key}
        place = {"host": self.url.host, "port": self.url.port, "database": self.url.database, "query": query}
        return sqlalchemy.URL.create(self.url.get_backend_name(), self.url.username, **place).render_as_string()

    def engine_options(self):
        if self.is_sqlite:
            return {} if "timeout" in self.url.query else {"connect_args": {"timeout": LOCKED_SECONDS}}
        return {"pool_pre_ping": True, "connect_args": {"connect_timeout": CONNECT_SECONDS}}

    @contextlib.contextmanager
    def lock(self):
        """Holds a lock that ends with the process, however that ends."""
        if self.is_sqlite:
            with open(f"{self.url.database}.lock", "a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        else:
            key = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], signed=True)
            with self.engine.begin() as connection:
                connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
                yield


def parse(url):
    try:
        parsed = sqlalchemy.engine.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        raise UserError(f"--storage {re.sub(':[^:@/]*@', ':***@', url)}: expected {EXPECTED}") from None
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql") or not parsed.database:
        raise UserError(f"--storage {parsed.render_as_string()}: expected {EXPECTED}")
    if backend == "sqlite":
        file = pathlib.Path(parsed.database).resolve()  # found again from any folder
        if not file.parent.is_dir():
            raise UserError(f"--storage {parsed}: there is no folder {file.parent}")
        return parsed.set(database=str(file))
    if not importlib.util.find_spec("psycopg"):
        raise UserError(f"--storage: PostgreSQL needs psycopg: {sys.executable} -m pip install 'psycopg[binary]'")
    return parsed.set(drivername="postgresql+psycopg")


@contextlib.contextmanager
def explaining(storage, errors=ERRORS):
    """Turns errors of a storage into one line that says what to do."""
    try:
        yield
    except errors as error:
        raise UserError(explain(storage, error)) from None


def explain(storage, error):
    where, cause = f"the storage {storage.text()}", own_words(error)
    if storage.is_gone():
        return f"{where} was removed: put the file back, or move the sweep's folder away to start again"
    if "database is locked" in cause:
        return f"{where} is locked by another program; end it, or wait for it: the same command continues the sweep"
    if isinstance(error, OTHER_VERSION) or storage.is_sqlite:
        return f"{where} cannot be used: {cause}; choose another with --storage, or --out"
    return f"{where} does not answer: {cause}; is it there, may you use that database, and does ~/.pgpass or PGPASSWORD have the password?"


def own_words(error):
    """Returns the driver's message, which Optuna and SQLAlchemy wrap."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    text = re.split(r" \(Background on this error| \[SQL:", " ".join(str(error).split()))[0]
    return re.sub(r"^\([\w.]+\) ", "", text)[:300].rstrip(" .:")
