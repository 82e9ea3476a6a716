-- A thousand transfers out of one account in one statement.
SELECT led.transfer_batch(array_agg(gen_random_uuid()), array_agg(1::bigint), array_agg(payee), array_agg(7::numeric)) FROM (SELECT (2 + floor(random() * 9999))::bigint AS payee FROM generate_series(1, 1000)) AS pairs;
