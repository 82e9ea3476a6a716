-- A thousand transfers between random accounts in one statement.
SELECT led.transfer_batch(array_agg(gen_random_uuid()), array_agg(payer), array_agg(1 + (payer - 1 + step) % 10000), array_agg(7::numeric)) FROM (SELECT (1 + floor(random() * 10000))::bigint AS payer, (1 + floor(random() * 9999))::bigint AS step FROM generate_series(1, 1000)) AS pairs;
