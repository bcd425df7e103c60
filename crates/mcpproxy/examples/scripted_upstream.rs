//! The scripted upstream as a process: tests start it as a stdio server.

fn main() {
    testkit::stdio::main();
}
