# SPDX-License-Identifier: MIT
"""Keeps a study: in SQLite in the sweep's folder, or in PostgreSQL for several machines."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import re
import sqlite3
import sys
import warnings

import alembic
import optuna
import sqlalchemy

from ddprun.errors import UserError

LOCKED_SECONDS = 20  # how long SQLite waits for another program
CONNECT_SECONDS = 10
EXPECTED = "postgresql://user@host/database, or sqlite:///file.db"
ERRORS = (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError)
OTHER_VERSION = (RuntimeError, alembic.util.CommandError)  # while it is opened


class DurableConnection(sqlite3.Connection):
    """Makes commits survive a power cut: SQLite's default syncs the file, but not the folder that its journal is removed
    from, and a journal that reappears undoes its transaction.
    """

    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.execute("PRAGMA synchronous = EXTRA")


class Storage:
    """The storage of a study. `lock()` is for whatever only one process may do at a time."""

    def __init__(self, url, name):
        self.url, self.name, self.file = parse(url), name, None
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        self.engine = sqlalchemy.create_engine(self.url, **self.engine_options())
        with telling_of(self, OTHER_VERSION), self.lock():  # two at once would both make the tables
            url = self.url.render_as_string(hide_password=False)
            self.optuna = optuna.storages.get_storage(
                optuna.storages.RDBStorage(url, engine_kwargs=self.engine_options())
            )

        self.file = file_id(self.url.database) if self.is_sqlite else None

    @property
    def is_sqlite(self):
        return self.url.get_backend_name() == "sqlite"

    def is_gone(self):
        """Returns whether the file was removed or replaced: what is written to it since then is lost."""
        try:
            return self.file is not None and file_id(self.url.database) != self.file
        except OSError:
            return False  # a file system that does not answer now

    def text(self):
        """Returns the URL without the password."""
        url = self.url
        query = {key: value for key, value in url.query.items() if "password" not in key}
        place = {"host": url.host, "port": url.port, "database": url.database, "query": query}
        return sqlalchemy.URL.create(url.get_backend_name(), url.username, **place).render_as_string()

    def engine_options(self):
        if self.is_sqlite:
            wait = {} if "timeout" in self.url.query else {"timeout": LOCKED_SECONDS}
            return {"connect_args": wait | {"factory": DurableConnection}}
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


def file_id(path):
    """Returns None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def parse(url):
    try:
        parsed = sqlalchemy.engine.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        raise UserError(f"--storage {re.sub(':[^:@/]*@', ':***@', url)}: expected {EXPECTED}") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database:
        return require_folder(parsed)
    if backend != "postgresql" or not parsed.database:
        shown = parsed.render_as_string()
        raise UserError(f"--storage {shown}: expected {EXPECTED}")
    if not importlib.util.find_spec("psycopg"):
        raise UserError(
            f"--storage: PostgreSQL needs the package psycopg: {sys.executable} -m pip install 'psycopg[binary]'"
        )
    return parsed.set(drivername="postgresql+psycopg")


def holds_password(url):
    """Returns the user's password, or that of a key: ?sslpassword=."""
    return url.password is not None or any("password" in key for key in url.query)


def require_folder(url):
    """Returns the URL with the file's absolute path, so that it is found again from any folder."""
    file = pathlib.Path(url.database).resolve()
    if not file.parent.is_dir():
        raise UserError(f"--storage {url}: there is no folder {file.parent}")
    return url.set(database=str(file))


@contextlib.contextmanager
def telling_of(storage, more=()):
    """Turns errors of a storage into one line that says what to do."""
    try:
        yield
    except (*ERRORS, *more) as error:
        raise UserError(explain(storage, error)) from None


def causes(error):
    """Returns the texts of an error, the outermost first: Optuna and SQLAlchemy wrap the driver's."""
    while error is not None:
        yield " ".join(str(error).split())
        error = error.__cause__


def explain(storage, error):
    texts = list(causes(error))
    text, driver = " ".join(texts), next((text for text in reversed(texts) if text), "it does not say why")
    where = f"the storage {storage.text()}"
    if storage.is_gone():
        return f"{where} was removed: put the file back, or move the sweep's folder away to start again"
    if "database is locked" in text:
        return f"{where} is locked by another program; end it, or wait for it: the same command continues the sweep"
    if "no longer compatible with the table schema" in text or "is incompatible with the table schema" in text:
        return (
            f"{where} was made by another version of Optuna than {optuna.__version__}:"
            " `optuna storage upgrade --storage URL` brings an older one up to date; for a newer one, choose another"
            " storage, or --name and --out"
        )
    if "file is not a database" in text:
        return f"{where} is no SQLite database; move the file away, or choose another with --storage"
    if storage.is_sqlite:
        return f"{where} cannot be used: {short(driver)}"
    if "password" in driver:
        return f"{where} does not let you in: {short(driver)}; ~/.pgpass or PGPASSWORD holds the password"
    return f"{where} does not answer: {short(driver)}; is the server there, and may you use that database?"


def short(text):
    """Returns the driver's own message."""
    for begin in ("OperationalError) ", "DatabaseError) ", "OperationalError: "):
        text = text.rpartition(begin)[2] or text
    for end in (" (Background on this error", " [SQL:", " Is the server running"):
        text = text.partition(end)[0]
    return text[:300].rstrip(" .")
