"""All checks of an application that was made in Python, or that has got schemas from data."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from shedlight.graph.application import Application
from shedlight.graph.check import key_problems, reference_problems
from shedlight.graph.column_types import data_type_problems
from shedlight.graph.constraints import constraint_problems
from shedlight.graph.file.problem import raise_any
from shedlight.graph.lint import lint_application
from shedlight.language import Schema


def check_application(application: Application) -> tuple[str, ...]:
    """See that an application holds together, and list what cannot be what was meant.

    Raises:
        ApplicationError: It does not; all that is wrong is in the message.
    """
    raise_any(reference_problems(application))
    raise_any(
        chain(
            key_problems(application),
            data_type_problems(application),
            constraint_problems(application),
        )
    )
    return tuple(each.message for each in lint_application(application))


def with_schemas(application: Application, schemas: Mapping[str, Schema]) -> Application:
    """Give sources the schemas that their data turned out to have, and check once more.

    Args:
        application: An application that was checked.
        schemas: By the name of the source, without its derived columns. A declared schema
            stays as it is.

    Raises:
        ApplicationError: A column is missing or has the wrong data type.
    """
    sources = {
        name: replace(source, schema=schemas.get(name)) if source.schema is None else source
        for name, source in application.sources.items()
    }
    found = replace(application, sources=sources)
    raise_any(data_type_problems(found))
    return found
