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

# every test that needs only Rust and the kernel
test:
    cargo test

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
