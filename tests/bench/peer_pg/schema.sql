-- SPDX-License-Identifier: Apache-2.0
-- A ledger as an application would keep it in PostgreSQL: double entry, no overdraft, and an
-- idempotency key that makes a repeated transfer harmless. 10,000 funded accounts.
DROP SCHEMA IF EXISTS led CASCADE;
CREATE SCHEMA led;

-- A fill factor below 100 leaves room for updated rows on their own page.
CREATE TABLE led.accounts (
    id      bigint PRIMARY KEY,
    balance numeric(39, 0) NOT NULL DEFAULT 0 CHECK (balance >= 0),
    version bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

CREATE TABLE led.transfers (
    seq        bigserial PRIMARY KEY,
    idem       uuid NOT NULL UNIQUE,
    debit      bigint NOT NULL,
    credit     bigint NOT NULL,
    amount     numeric(39, 0) NOT NULL CHECK (amount > 0),
    memo       text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (debit <> credit)
);

INSERT INTO led.accounts SELECT id, 1000000000000 FROM generate_series(1, 10000) AS id;

-- One transfer. Returns its sequence number; a repeated key returns the first one. Accounts are
-- locked in the order of their ids, so transfers never deadlock.
CREATE FUNCTION led.transfer(key uuid, payer bigint, payee bigint, units numeric, note text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    INSERT INTO led.transfers (idem, debit, credit, amount, memo)
        VALUES (key, payer, payee, units, note)
        ON CONFLICT (idem) DO NOTHING RETURNING seq INTO number;
    IF number IS NULL THEN
        SELECT seq INTO number FROM led.transfers WHERE idem = key;
        RETURN number;
    END IF;
    IF payer < payee THEN
        UPDATE led.accounts SET balance = balance - units, version = version + 1 WHERE id = payer;
        UPDATE led.accounts SET balance = balance + units, version = version + 1 WHERE id = payee;
    ELSE
        UPDATE led.accounts SET balance = balance + units, version = version + 1 WHERE id = payee;
        UPDATE led.accounts SET balance = balance - units, version = version + 1 WHERE id = payer;
    END IF;
    RETURN number;
END $$;

-- Many transfers as sets: one insert, one net update per account, one commit. A custom plan, because
-- the generic one compares each row with the whole array.
CREATE FUNCTION led.transfer_batch(keys uuid[], payers bigint[], payees bigint[], units numeric[])
RETURNS bigint LANGUAGE plpgsql SET plan_cache_mode = 'force_custom_plan' AS $$
DECLARE
    touched bigint[];
    sums    numeric[];
    counts  bigint[];
    changed bigint;
BEGIN
    WITH fresh AS (
        INSERT INTO led.transfers (idem, debit, credit, amount)
            SELECT * FROM unnest(keys, payers, payees, units)
            ON CONFLICT (idem) DO NOTHING RETURNING debit, credit, amount
    ), moves AS (
        SELECT debit AS id, -amount AS units FROM fresh
        UNION ALL
        SELECT credit, amount FROM fresh
    ), net AS (
        SELECT id, sum(moves.units) AS units, count(*) AS many FROM moves GROUP BY id
    )
    SELECT array_agg(net.id), array_agg(net.units), array_agg(net.many)
        INTO touched, sums, counts FROM net;
    PERFORM 1 FROM led.accounts WHERE id = ANY (touched) ORDER BY id FOR NO KEY UPDATE;
    UPDATE led.accounts AS a SET balance = a.balance + x.units, version = a.version + x.many
        FROM unnest(touched, sums, counts) AS x (id, units, many) WHERE a.id = x.id;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;
