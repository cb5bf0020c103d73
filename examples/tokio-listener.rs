//! A listener as tokio makes it, for the survey of servers: `tokio-listener PORT`.

use std::io;
use std::net::Ipv4Addr;

use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK";

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let port: u16 = port.ok_or_else(|| io::Error::other("name the port to listen on"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        loop {
            let (client, _) = listener.accept().await?;
            tokio::spawn(answer(client));
        }
    })
}

async fn answer(client: TcpStream) -> io::Result<()> {
    loop {
        client.readable().await?;
        match client.try_read(&mut [0; 1024]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => {
                read?;
                break;
            }
        }
    }
    client.writable().await?;
    client.try_write(ANSWER).map(drop)
}
