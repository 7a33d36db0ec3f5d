# Runs a command where processes can enter a second network, with one link between that and their own: two hosts, as far as
# methods can tell. To be started in user, network and mount namespaces of its own (unshare --user --map-root-user --net --mount).
# The second has a further address, from which nothing replies: what is sent there gets lost, as in a network of which a firewall drops packets. And
# it has many addresses that mean nothing to others, as hosts of containers have. With IP_VERSION=6 the network has only addresses of that version.
# With `--host` as its first argument it runs the rest in the network for the process's rank: odd ones in the second.
set -e
if [ "$1" = --host ]; then
    shift
    if [ $((PMI_RANK % 2)) = 1 ]; then
        exec nsenter --net --target "$SECOND_HOST" "$@"
    fi
    exec "$@"
fi
ip link set lo up
unshare --net sleep 60 &
SECOND_HOST=$!
export SECOND_HOST
trap 'kill $SECOND_HOST' EXIT
while [ "$(readlink "/proc/$SECOND_HOST/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
    sleep 0.01
done
ip link add one type veth peer name two netns "$SECOND_HOST"
case $IP_VERSION in
6) first='fd77::1/64 nodad' second='fd77::2/64 nodad' ;;
*) first=10.77.0.1/24 second=10.77.0.2/24 ;;
esac
ip address add dev one $first
ip link set one up
nsenter --net --target "$SECOND_HOST" ip link set lo up
if [ "$IP_VERSION" != 6 ]; then
    ip route add 10.99.0.0/24 via 10.77.0.9 dev one
    ip neighbour add 10.77.0.9 lladdr 02:00:00:00:00:01 dev one nud permanent
    nsenter --net --target "$SECOND_HOST" sh -ec \
        'ip address add 10.99.0.2/24 dev two; for i in $(seq 20); do ip address add 10.98.$i.2/32 dev lo; done'
fi
nsenter --net --target "$SECOND_HOST" sh -ec "ip address add dev two $second; ip link set two up"
"$@"
