-- Counts a tenant's documents from the index alone: asked before a put where the tenant has a limit.
CREATE INDEX documents_of_a_tenant ON documents (tenant) WHERE deleted = 0;
