//! Who serves: the lab's own slow-accept server, or a program. One table of a file describes either.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AcceptPolicy, Answer, Descriptors, Pause, ProgramServer, ProgramSpec, ServerFamily, ServerSpec,
    Span,
};

/// Who serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ServerTable", into = "ServerTable")]
pub enum Server {
    /// The lab's own server, whose log tells each accept.
    Own(ServerSpec),
    /// A program, of which only the kernel tells.
    Program(ProgramServer),
}

impl Server {
    /// The lab's own server, if it is that.
    pub fn own(&self) -> Option<&ServerSpec> {
        match self {
            Self::Own(spec) => Some(spec),
            Self::Program(_) => None,
        }
    }

    /// The program, if it is one.
    pub fn program(&self) -> Option<&ProgramServer> {
        match self {
            Self::Own(_) => None,
            Self::Program(program) => Some(program),
        }
    }

    /// Whether the port is open at all.
    pub fn listens(&self) -> bool {
        self.own().is_none_or(|own| own.listen)
    }

    /// Whether it listens on an `AF_UNIX` socket, of which the kernel's TCP tables and counters know nothing.
    pub fn is_unix(&self) -> bool {
        self.own()
            .is_some_and(|own| own.family == Some(ServerFamily::Unix))
    }

    /// How many ports are open to clients.
    pub fn ports(&self) -> u32 {
        self.own().map_or(1, |own| own.ports)
    }

    /// The `listen()` argument, where it is known.
    pub fn backlog(&self) -> Option<i32> {
        match self {
            Self::Own(spec) => Some(spec.backlog),
            Self::Program(program) => program.backlog,
        }
    }

    /// The pause of the lab's own server after each accept; a program has none that is known.
    pub fn accept_delay(&self) -> Option<Span> {
        self.own().map(|own| own.accept_delay)
    }

    /// When connections are accepted, as far as it is known.
    pub fn accept(&self) -> Option<&AcceptPolicy> {
        self.own().map(|own| &own.accept)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Own(spec) => spec.check(),
            Self::Program(server) => {
                if server.port == 0 {
                    return Err("server.port: the port that the program listens on".into());
                }
                if server.ready_within == Span::default() {
                    return Err("server.ready-within must be longer than 0s".into());
                }
                if server
                    .pause
                    .is_some_and(|pause| pause.lasts == Span::default())
                {
                    return Err("server.pause: for = \"0s\" is no pause; remove the key".into());
                }
                server.program.check("server")
            }
        }
    }
}

/// The table as a file writes it: the keys of the lab's own server and those of a program.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(rename = "Server", extend("anyOf" = [{ "required": ["backlog"] }, { "required": ["command"] }]))]
struct ServerTable {
    /// The `listen()` argument; 0 and -1 are legal. Required without a command. With one, what the program is set
    /// up to ask for, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog: Option<i32>,
    /// The pause after each accept.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_delay: Option<Span>,
    /// When connections are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept: Option<AcceptPolicy>,
    /// The first accept is not before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_from: Option<Span>,
    /// `unix` listens on an `AF_UNIX` socket instead of a TCP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<ServerFamily>,
    /// What an accepted client is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    /// After how many answers a connection that is kept is closed; absent means that its client closes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u32>,
    /// Whether the port is open at all; `false` is the control without a listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<bool>,
    /// How many sockets share the port by `SO_REUSEPORT`; 1 is a plain listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    reuseport: Option<u32>,
    /// How many threads accept from the only socket, each with an epoll of its own; 1 is a plain accept loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptors: Option<u32>,
    /// How many ports it listens on, each with a socket of its own; clients use them in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<u32>,
    /// `TCP_DEFER_ACCEPT`, in whole seconds (tcp(7)); absent means off.
    #[serde(skip_serializing_if = "Option::is_none")]
    defer_accept: Option<Span>,
    /// When the first of the listening sockets is closed, with whatever its queue holds; absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    close_first_at: Option<Span>,
    /// How many connections it can hold, and what it does with more; absent means as many as the machine allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptors: Option<Descriptors>,
    /// A program that serves instead of the lab's own server, and its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
    /// The port that the program listens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// The Debian package to install where the program is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    /// The program's working directory; without one it gets a fresh folder for each trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// Files that are written into that fresh folder: name and text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, String>,
    /// The program's variables, beside those of the lab's own environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: BTreeMap<String, String>,
    /// The program's limit of open files, soft and hard.
    #[serde(skip_serializing_if = "Option::is_none")]
    nofile: Option<u64>,
    /// How long the program may take until it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_within: Option<Span>,
    /// How long it is left alone once it listens, so that its workers can start.
    #[serde(skip_serializing_if = "Option::is_none")]
    settle: Option<Span>,
    /// When all of the program's processes are stopped for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<Pause>,
}

const READY_WITHIN: Span = Span::from_ms(10_000);
const SETTLE: Span = Span::from_ms(100);

impl TryFrom<ServerTable> for Server {
    type Error = String;

    fn try_from(table: ServerTable) -> Result<Self, String> {
        if table.command.is_empty() {
            table.own().map(Self::Own)
        } else {
            table.program().map(Self::Program)
        }
    }
}

impl ServerTable {
    fn own(self) -> Result<ServerSpec, String> {
        let of_programs = [
            ("port", self.port.is_some()),
            ("package", self.package.is_some()),
            ("directory", self.directory.is_some()),
            ("files", !self.files.is_empty()),
            ("environment", !self.environment.is_empty()),
            ("nofile", self.nofile.is_some()),
            ("ready-within", self.ready_within.is_some()),
            ("settle", self.settle.is_some()),
            ("pause", self.pause.is_some()),
        ];
        if let Some((key, _)) = of_programs.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!(
                "{key} belongs to a program: name it with command = [\"..\"]"
            ));
        }
        let backlog = self.backlog.ok_or(
            "missing key `backlog`: the listen() argument, or command = [\"..\"] for a program",
        )?;
        Ok(ServerSpec {
            backlog,
            accept_delay: self.accept_delay.unwrap_or_default(),
            accept: self.accept.unwrap_or_default(),
            accept_from: self.accept_from.unwrap_or_default(),
            family: self.family,
            answer: self.answer.unwrap_or_default(),
            requests: self.requests,
            listen: self.listen.unwrap_or(true),
            reuseport: self.reuseport.unwrap_or(1),
            ports: self.ports.unwrap_or(1),
            acceptors: self.acceptors.unwrap_or(1),
            defer_accept: self.defer_accept,
            close_first_at: self.close_first_at,
            descriptors: self.descriptors,
        })
    }

    fn program(self) -> Result<ProgramServer, String> {
        let of_our_own = [
            ("accept-delay", self.accept_delay.is_some()),
            ("accept", self.accept.is_some()),
            ("accept-from", self.accept_from.is_some()),
            ("family", self.family.is_some()),
            ("answer", self.answer.is_some()),
            ("requests", self.requests.is_some()),
            ("listen", self.listen.is_some()),
            ("reuseport", self.reuseport.is_some()),
            ("ports", self.ports.is_some()),
            ("acceptors", self.acceptors.is_some()),
            ("defer-accept", self.defer_accept.is_some()),
            ("close-first-at", self.close_first_at.is_some()),
            ("descriptors", self.descriptors.is_some()),
        ];
        if let Some((key, _)) = of_our_own.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!(
                "{key} belongs to the lab's own server: what a program does stands in its own configuration"
            ));
        }
        Ok(ProgramServer {
            port: self
                .port
                .ok_or("missing key `port`: the port that the program listens on")?,
            backlog: self.backlog,
            ready_within: self.ready_within.unwrap_or(READY_WITHIN),
            settle: self.settle.unwrap_or(SETTLE),
            pause: self.pause,
            program: ProgramSpec {
                command: self.command,
                package: self.package,
                directory: self.directory,
                files: self.files,
                environment: self.environment,
                nofile: self.nofile,
            },
        })
    }
}

impl From<Server> for ServerTable {
    fn from(server: Server) -> Self {
        match server {
            Server::Own(own) => Self {
                backlog: Some(own.backlog),
                accept_delay: Some(own.accept_delay),
                accept: Some(own.accept),
                accept_from: Some(own.accept_from),
                family: own.family,
                answer: Some(own.answer),
                requests: own.requests,
                listen: Some(own.listen),
                reuseport: Some(own.reuseport),
                ports: (own.ports > 1).then_some(own.ports),
                acceptors: (own.acceptors > 1).then_some(own.acceptors),
                defer_accept: own.defer_accept,
                close_first_at: own.close_first_at,
                descriptors: own.descriptors,
                ..Self::default()
            },
            Server::Program(server) => Self {
                command: server.program.command,
                port: Some(server.port),
                backlog: server.backlog,
                package: server.program.package,
                directory: server.program.directory,
                files: server.program.files,
                environment: server.program.environment,
                nofile: server.program.nofile,
                ready_within: Some(server.ready_within),
                settle: Some(server.settle),
                pause: server.pause,
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Server, String> {
        let server: Server = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        server.check().map(|()| server)
    }

    #[test]
    fn a_program_needs_a_port_and_no_backlog() {
        let server = read("command = [\"nginx\"]\nport = 8080").unwrap();
        let program = server.program().unwrap();
        assert_eq!((program.port, program.backlog), (8080, None));
        assert_eq!(program.ready_within, Span::from_ms(10_000));
        let whole = "command = [\"a\", \"b\"]\nport = 1\nbacklog = 511\nnofile = 64\npackage = \"p\"\n\
            settle = \"1s\"\npause = { at = \"0s\", for = \"1s\" }\nenvironment = { A = \"b\" }\n\
            files = { \"x.conf\" = \"y\" }";
        let server = read(whole).unwrap();
        let again = toml::to_string(&server).unwrap();
        assert_eq!(read(&again).unwrap(), server);
    }

    #[test]
    fn what_contradicts_is_refused() {
        let program = "command = [\"nginx\"]\n";
        for (text, part) in [
            ("", "missing key `backlog`"),
            ("backlog = 1\nport = 80", "port belongs to a program"),
            ("backlog = 1\nnofile = 80", "nofile belongs to a program"),
            (program, "missing key `port`"),
            (&format!("{program}port = 0"), "server.port"),
            (
                &format!("{program}port = 1\naccept-delay = \"1s\""),
                "accept-delay belongs to the lab's own server",
            ),
            ("command = [\"\"]\nport = 1", "a program must be named"),
            (
                &format!("{program}port = 1\nfiles = {{ \"../x\" = \"\" }}"),
                "inside the program's folder",
            ),
            (
                &format!("{program}port = 1\nfiles = {{ \"/x\" = \"\" }}"),
                "inside the program's folder",
            ),
            (
                &format!("{program}port = 1\ndirectory = \"/\"\nfiles = {{ x = \"\" }}"),
                "remove one of the two keys",
            ),
            (
                &format!("{program}port = 1\nenvironment = {{ \"A=B\" = \"\" }}"),
                "no variable's name",
            ),
            (&format!("{program}port = 1\nnofile = 3"), "server.nofile"),
            (
                &format!("{program}port = 1\npause = {{ at = \"0s\", for = \"0s\" }}"),
                "is no pause",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
