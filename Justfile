# Every recipe is one line that can be pasted into a shell.

# list the recipes
default:
    @just --list

# run arms by name, for example: just lab arm-a
lab +ARMS:
    cargo run --release -- run {{ARMS}}

# make a run's report again from its stored observations
report RUN="latest":
    cargo run --release -- report {{RUN}}

# run what tests the claims in circulation, and print each with its ruling (--markdown: the table in docs/method.md)
claims *OPTIONS:
    cargo run --release -- claims {{OPTIONS}}

# every test that needs only Rust and the kernel
test:
    cargo test

# the tests beside foreign programs: ss, nstat, curl, nginx, redis, gunicorn, node, tcpdump, tshark
test-real:
    cargo test --features real-tests --test real

# measure what the lab costs, both sides in one run
bench:
    cargo bench --bench costs --bench audit --bench wire

# write the JSON Schemas again after a change of the types
schema:
    cargo run -- schema arm > schema/arm.json
    cargo run -- schema results > schema/results.json

# what takes minutes: 200 kills, 20 comparisons of equal runs, trials at once against serial ones
soak:
    cargo test --release --test netns -- --ignored --test-threads 1 --nocapture soak/

# what CI runs
ci:
    .ci/run
