-- Parts the two tables of report ids of an aggregator's store by hash, into 16 tables each: their
-- indexes stay smaller than the server's limit of 32 TB and can be rebuilt one by one, and each can
-- lie on a disk of its own (ALTER TABLE report_ids_3 SET TABLESPACE ...).
--
-- Stop the aggregator, then: psql --set ON_ERROR_STOP=1 --file partition-ids.sql DATABASE
--
-- It is one transaction, and copies the ids that there are. Replace 15 and 16 for other numbers.

BEGIN;

DO $$
DECLARE
    ids text;
BEGIN
    FOREACH ids IN ARRAY ARRAY['report_ids', 'aggregated_reports'] LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO whole', ids);
        EXECUTE format(
            'CREATE TABLE %I (LIKE whole INCLUDING ALL) PARTITION BY HASH (report_id)', ids
        );
        FOR part IN 0..15 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                ids || '_' || part, ids, part
            );
        END LOOP;
        EXECUTE format('INSERT INTO %I SELECT * FROM whole', ids);
        DROP TABLE whole;
    END LOOP;
END
$$;

COMMIT;
