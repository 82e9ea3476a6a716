-- One transfer out of one account that everybody pays from.
\set payee random(2, 10000)
SELECT led.transfer(gen_random_uuid(), 1, :payee, 7, 'invoice part payment');
