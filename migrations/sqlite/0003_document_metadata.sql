-- JSON: the metadata of the document itself. Chunks carry theirs in the store; an empty document has no chunk to ask.
ALTER TABLE documents ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
