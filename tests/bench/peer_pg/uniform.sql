-- One transfer between two random accounts.
\set payer random(1, 10000)
\set step random(1, 9999)
\set payee 1 + (:payer - 1 + :step) % 10000
SELECT led.transfer(gen_random_uuid(), :payer, :payee, 7, 'invoice part payment');
