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

# the load tools that are installed, on one listener: what they claim beside what the kernel counted (docs/tools.md)
tools:
    cargo run --release -- run tools

# what curl, nginx, Python, Node and Go print for each fate of a connection (the table in README.md)
symptoms:
    cargo run --release -- run symptoms --jobs 4

# run real servers as they come, and write the table of what they ask for (docs/survey.md)
survey:
    cargo build --release --examples
    cargo run --release -- run survey --no-charts --quiet --out target/survey/$(date +%s)
    cargo run --release --example survey -- $(ls -d target/survey/*/results.json | tail -n 1) > docs/survey.md

# nginx before and after: neither limit raised, one of them, both (one chart)
tuning:
    cargo run --release -- run tuning

# every test that needs only Rust and the kernel
test:
    cargo test

# the tests beside foreign programs: ss, nstat, curl, nginx, redis, gunicorn, node, tcpdump, tshark, ab, wrk
test-real:
    cargo test --features real-tests --test real

# measure what the lab costs, both sides in one run
bench:
    cargo bench --bench costs --bench audit --bench wire

# our client beside wrk, hey, oha and ab, against nginx and our own server
bench-clients:
    cargo bench --bench clients

# write the JSON Schemas again after a change of the types
schema:
    cargo run -- schema arm > schema/arm.json
    cargo run -- schema results > schema/results.json

# what takes minutes: 200 kills, 20 comparisons of equal runs, trials at once against serial ones, and fuzzing
# (needs `cargo install cargo-fuzz`)
soak:
    cargo test --release --test netns -- --ignored --test-threads 1 --nocapture soak/
    for target in arm counters observation sock_diag; do \
        cargo fuzz run -s none $target -- -max_total_time=120 || exit 1; \
    done

# what CI runs
ci:
    .ci/run
