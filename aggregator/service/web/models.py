"""What the models of documents share, from which OpenAPI descriptions are made.

Nothing is read or written through them: tests hold the documents to the models.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Exact = Annotated[str, Field(description="An exact number: an integer, a fraction or a decimal.")]


class DocumentModel(BaseModel):
    """A document, or a part of one, with these members and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)
